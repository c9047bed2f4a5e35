"""The routes of media: bytes that are sent once and named in messages."""

from __future__ import annotations

import re
import time
from hashlib import blake2b

from starlette.responses import Response

from holdfast.core.errors import ConfigurationError
from holdfast.journal.service_store.service_store import ServiceStore, Upload
from holdfast.server.access.budgets import READS, WRITES
from holdfast.server.api.operations import AnyOperation, Call, Operation, OperationAnswer, respond
from holdfast.server.api.request_bodies import NoBody, NoQuery
from holdfast.server.api.views import MediaView
from holdfast.server.problem_responses import ProblemError, make_problem

_TYPE = re.compile(r"[a-z0-9][a-z0-9!#$&^_.+-]{0,80}/[a-z0-9][a-z0-9!#$&^_.+-]{0,80}")
_ATTACHED = {
    "Content-Disposition": "attachment",
    "Content-Security-Policy": "sandbox; default-src 'none'",
    "X-Content-Type-Options": "nosniff",
}


async def upload_media(call: Call[NoQuery, NoBody]) -> Response:
    """Store bytes for a message."""
    found = call.request.headers.get("Content-Type", "").partition(";")[0].strip().lower()
    if not _TYPE.fullmatch(found):
        fix = "Send a Content-Type such as image/png"
        detail = "is not the type of a medium"
        problem = make_problem(415, "content_type", detail, field="Content-Type", fix=fix)
        raise ProblemError(problem)
    data = await call.request.body()
    if not data:
        raise ProblemError(make_problem(422, "body", "the body is empty", fix="Send the bytes"))
    name = f"m_{blake2b(found.encode() + b'/' + data, digest_size=16).hexdigest()}"
    upload = Upload(
        tenant=call.principal.tenant,
        name=name,
        media_type=found,
        data=data,
        created_at=time.time(),
    )
    await call.store.add_upload(upload)
    return respond(MediaView(name, found, len(data)), 201)


async def download_media(call: Call[NoQuery, NoBody]) -> Response:
    """Return bytes. A browser downloads them and does not show them as a page of this site."""
    upload = await find_media(call.store, call.principal.tenant, call.names["media"], "media")
    return Response(upload.data, 200, _ATTACHED, media_type=upload.media_type)


async def find_media(store: ServiceStore, tenant: str, name: str, argument: str) -> Upload:
    """Return the bytes with this name. Raises ConfigurationError if there are none."""
    found = await store.find_upload(tenant, name) if name.isprintable() else None
    if found is None:
        problem = "there is no medium with this name"
        raise ConfigurationError(
            argument, problem, fix="Send it with POST /media; it is kept a day"
        )
    return found


OPERATIONS: tuple[AnyOperation, ...] = (
    Operation(
        name="upload_media",
        method="POST",
        path="/media",
        text="Store a picture, a sound or a file for a message. It is kept for a day.",
        scope="run",
        takes=WRITES,
        handle=upload_media,
        query=NoQuery,
        body=NoBody,
        carries="bytes",
        answers={
            201: (OperationAnswer(MediaView, "Its name, which is the same for the same bytes."),)
        },
        refusals=(409,),
        once="answer",
    ),
    Operation(
        name="download_media",
        method="GET",
        path="/media/{media}",
        text="Read an upload.",
        scope="read",
        takes=READS,
        handle=download_media,
        query=NoQuery,
        body=NoBody,
        answers={200: (OperationAnswer(None, "The bytes.", "*/*"),)},
        refusals=(404,),
    ),
)
"""The operations on media."""
