"""Error bodies as the vendors write them, and what a case of an error table is."""

import json

from holdfast.codecs.wire import Failure

Case = tuple[str, int | None, object, str]
"""Provider, status (None: inside a stream), body (bytes as text, or JSON), wanted category."""


def openai(message: str, kind: str | None = None, code: str | int | None = None) -> object:
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


def anthropic(kind: str, message: str) -> object:
    error = {"type": kind, "message": message}
    return {"type": "error", "error": error, "request_id": "req_011CeEEt722rfCAcdwH1yUGv"}


def google(code: int, status: str, message: str, *details: object) -> object:
    return {"error": {"code": code, "message": message, "status": status, "details": list(details)}}


def failure(case: Case, **headers: str) -> Failure:
    provider, status, body, _ = case
    text = body if isinstance(body, str) else json.dumps(body)
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Failure(provider=provider, status=status, body=text.encode(), headers=named)


def name(case: Case) -> str:
    text = case[2] if isinstance(case[2], str) else json.dumps(case[2])
    return f"{case[0]}-{case[1]}-{text[:60]}"
