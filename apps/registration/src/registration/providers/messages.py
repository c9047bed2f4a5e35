"""The clients of the mail and the SMS provider, and a message as they know it."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from registration.providers.connection import ProviderClient

MessageState = Literal["queued", "sent", "delivered", "failed"]


class SentMessage(Struct, frozen=True):
    """A message that a provider accepted; neither its text nor its receiver is read back."""

    id: str
    state: MessageState


class Mailer(ProviderClient):
    """Sends e-mails.

    Args:
        endpoint: address, token and time limits.
    """

    PROVIDER = "mail"

    async def send(self, key: str, to: str, subject: str, text: str) -> str:
        """Send an e-mail, once for each key, and return its id.

        Args:
            key: the idempotency key.
            to: an e-mail address.
            subject: one line.
            text: plain text.

        Raises:
            Refused: it was not sent.
            Unanswered: it may have been sent.
        """
        body = {"to": to, "subject": subject, "text": text}
        return (await self._create("/v1/mails", body, SentMessage, key)).id

    async def find(self, key: str) -> SentMessage | None:
        """Return the e-mail that was sent with a key, or None.

        Raises:
            Refused: the provider does not say.
            Unanswered: there was no answer.
        """
        return await self._find("/v1/mails", key, SentMessage)


class SmsProvider(ProviderClient):
    """Sends text messages.

    Args:
        endpoint: address, token and time limits.
    """

    PROVIDER = "sms"

    async def send(self, key: str, to: str, text: str) -> str:
        """Send a message, once for each key, and return its id.

        Args:
            key: the idempotency key.
            to: a number in the form `+447700900123`.
            text: its text.

        Raises:
            Refused: it was not sent.
            Unanswered: it may have been sent.
        """
        message = await self._create("/v1/messages", {"to": to, "text": text}, SentMessage, key)
        return message.id

    async def find(self, key: str) -> SentMessage | None:
        """Return the message that was sent with a key, or None.

        Raises:
            Refused: the provider does not say.
            Unanswered: there was no answer.
        """
        return await self._find("/v1/messages", key, SentMessage)
