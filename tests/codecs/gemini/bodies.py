"""Bodies of this wire, written by hand, and one way to read them to the end."""

import json
from collections.abc import Iterable

from holdfast.codecs.assemble import AssembledReply, Assembler
from holdfast.codecs.gemini.codec import Gemini
from holdfast.codecs.wire import Quirks
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


def deltas(
    pieces: bytes | Iterable[bytes], content_type: str = "", provider: str = ""
) -> list[Delta]:
    decoder = Gemini().make_decoder(content_type, provider)
    found: list[Delta] = []
    for piece in [pieces] if isinstance(pieces, bytes) else pieces:
        found += decoder.feed(piece)
    return found + decoder.close()


def assembled(found: Iterable[Delta]) -> AssembledReply:
    assembler = Assembler(Quirks(), "gemini")
    for delta in found:
        assembler.feed(delta)
    return assembler.finish()


def read(
    pieces: bytes | Iterable[bytes], content_type: str = "", provider: str = ""
) -> AssembledReply:
    return assembled(deltas(pieces, content_type, provider))
