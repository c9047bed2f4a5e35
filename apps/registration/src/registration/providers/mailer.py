"""The client of the mail provider."""

from __future__ import annotations

from registration.providers.connection import ProviderClient
from registration.providers.messages import SentMessage


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
