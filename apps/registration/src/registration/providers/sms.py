"""The client of the SMS provider."""

from __future__ import annotations

from registration.providers.connection import ProviderClient
from registration.providers.messages import SentMessage


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
            text: what it says.

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
