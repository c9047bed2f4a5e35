"""The calls of a client that are about media."""

from __future__ import annotations

from urllib.parse import quote

from holdfast.client.service_connection import Sending, ServiceConnection
from holdfast.client.session_calls import call
from holdfast.core.argument_checks import check_arguments
from holdfast.core.constraints import NonEmptyText
from holdfast.server.api.views import MediaView


class MediaCalls:
    """What a client can do with media: `client.media`.

    Args:
        connection: the connection.
    """

    def __init__(self, connection: ServiceConnection) -> None:
        self._connection = connection

    @check_arguments
    async def upload(self, data: bytes, media_type: NonEmptyText) -> MediaView:
        """Store bytes for a message; pass the returned object as a part of one.

        Args:
            data: the bytes.
            media_type: such as "image/png".
        """
        sending = Sending(method="POST", path="/media", body=data, content_type=media_type)
        return await call(self._connection, sending, MediaView)

    async def download(self, media: str) -> bytes:
        """Return what was uploaded. Raises NotFoundError after a day."""
        path = f"/media/{quote(media, safe='')}"
        return (await self._connection.send(Sending(method="GET", path=path, accept="*/*"))).body
