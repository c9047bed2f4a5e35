"""Bodies of this wire, written by hand, and one way to read them to the end."""

import json
from collections.abc import Iterable

from tests.codecs.reading import Body, assemble_deltas, read_deltas

from holdfast.codecs.assemble import AssembledReply
from holdfast.codecs.endpoint_profile import EndpointProfile
from holdfast.codecs.gemini.codec import Gemini
from holdfast.core.deltas import Delta

Json = dict[str, object]


def chunk(*parts: object, finish: object = None, **more: object) -> Json:
    candidate: Json = {"content": {"role": "model", "parts": list(parts)}, "index": 0}
    if finish is not None:
        candidate["finishReason"] = finish
    return {
        "candidates": [candidate],
        "modelVersion": "gemini-2.5-flash",
        "responseId": "r1",
        **more,
    }


def text(said: str, **beside: object) -> Json:
    return {"text": said, **beside}


def call(name: str, args: object = None, **more: object) -> Json:
    return {"functionCall": {"name": name, **({} if args is None else {"args": args}), **more}}


def whole(value: object) -> bytes:
    return json.dumps(value).encode()


def events(*chunks: object, end: str = "\r\n\r\n") -> bytes:
    return "".join(f"data: {json.dumps(value)}{end}" for value in chunks).encode()


def array(*chunks: object) -> bytes:
    return ("[" + "\n,\r\n".join(json.dumps(value, indent=2) for value in chunks) + "\n]").encode()


def deltas(body: Body, content_type: str = "", provider: str = "") -> list[Delta]:
    return read_deltas(Gemini(), body, content_type, provider)


def assembled(found: Iterable[Delta]) -> AssembledReply:
    return assemble_deltas(found, "gemini", EndpointProfile())


def read(body: Body, content_type: str = "", provider: str = "") -> AssembledReply:
    return assembled(deltas(body, content_type, provider))
