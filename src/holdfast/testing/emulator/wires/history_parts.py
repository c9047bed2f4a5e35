"""Reads and checks the parts of histories that several wires share: calls, pictures, files, signatures.

The checks are written apart from the encoders that they check, so that both do not share a mistake. A
script sees the bytes that were sent. A client must send signatures of reasoning back unchanged: one made by this
module must match its text, and others come from a script and are accepted.
"""

from __future__ import annotations

import base64
import json
import re
from base64 import b64decode, b64encode
from hashlib import blake2b

from holdfast.core.messages import Media
from holdfast.testing.emulator.emulated_request import MalformedRequest

_PATTERN = re.compile(r"[a-zA-Z0-9_-]+")
_LONGEST_NAME = 64
_MOST_LEVELS = 100


def check_openai_name(name: object, where: str) -> None:
    """Check the name of a call in a history, with the texts of OpenAI's server.

    Args:
        name: the name of the function.
        where: the path of the name in the request.

    Raises:
        MalformedRequest: the server refuses the name.

    >>> check_openai_name("browser.open", "messages[1].tool_calls[0].function.name")
    Traceback (most recent call last):
    ...
    holdfast.testing.emulator.emulated_request.MalformedRequest: Invalid 'messages[1].tool_calls[0].function.name': string does not match pattern. Expected a string that matches the pattern '^[a-zA-Z0-9_-]+$'.
    """
    if not isinstance(name, str):
        raise MalformedRequest(
            f"Missing required parameter: '{where}'.",
            param=where,
            code="missing_required_parameter",
        )
    if len(name) > _LONGEST_NAME:
        raise MalformedRequest(
            f"Invalid '{where}': string too long. Expected a string with maximum length "
            f"{_LONGEST_NAME}, but got a string with length {len(name)} instead.",
            param=where,
            code="string_above_max_length",
        )
    if not _PATTERN.fullmatch(name):
        raise MalformedRequest(
            f"Invalid '{where}': string does not match pattern. Expected a string that matches the "
            "pattern '^[a-zA-Z0-9_-]+$'.",
            param=where,
            code="invalid_value",
        )


def is_json_object(text: str) -> bool:
    """Whether a text is one JSON object that every server reads: strict, and not nested too deep.

    >>> is_json_object('{"a": 1}'), is_json_object('{"a": 1'), is_json_object("[1]"), is_json_object("")
    (True, False, False, False)
    """
    try:
        value = json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        return False
    return isinstance(value, dict) and not is_too_deep(value)


def is_too_deep(value: object) -> bool:
    """Whether a JSON value has more levels than servers read.

    >>> is_too_deep({"a": [1]})
    False
    """
    level = [value]
    for _ in range(_MOST_LEVELS):
        level = [
            inner
            for one in level
            if isinstance(one, dict | list)
            for inner in (one.values() if isinstance(one, dict) else one)
        ]
        if not level:
            return False
    return True


def _refuse_constant(word: str) -> object:
    raise ValueError(f"{word} is not a JSON value")


def read_inline(kind: str, data: object, name: str) -> Media:
    r"""Return content that a request holds in base64; without such content, only what it is called.

    Args:
        kind: the media type.
        data: the base64, or anything else.
        name: what the wire calls such content.

    >>> read_inline("image/png", "iVA=", "image").data
    b'\x89P'
    >>> read_inline("image/*", None, "image").url
    'inline:image'
    """
    if isinstance(data, str):
        try:
            return Media(kind, data=base64.b64decode(data, validate=True))
        except ValueError:  # letters that base64 has not, too
            pass
    return Media(kind, url=f"inline:{name}")


def read_url(kind: str, url: object, name: str) -> Media:
    """Return what an address is of: the content of a data URL, or the address.

    Args:
        kind: the media type, if the address does not name it.
        url: the address, or anything else.
        name: what the wire calls such content.

    >>> read_url("image/*", "data:image/png;base64,iVA=", "image").media_type
    'image/png'
    """
    if not isinstance(url, str):
        return Media(kind, url=f"inline:{name}")
    head, comma, data = url.partition(",")
    named, is_base64, _ = head.removeprefix("data:").partition(";base64")
    if head.startswith("data:") and comma and is_base64:
        return read_inline(named or kind, data, name)
    return Media(kind, url=url)


_MARK = b"emulated:"
_STANDARD = str.maketrans("-_", "+/")


def sign_text(text: str) -> str:
    """Make the signature of a text, in base64 as providers send it.

    >>> sign_text("Porto") == sign_text("Porto"), is_intact(sign_text("Porto"), "Lisbon")
    (True, False)
    """
    return b64encode(_MARK + _digest_text(text)).decode()


def is_intact(signature: str, text: str) -> bool:
    """Whether the signature matches the text, or comes from a script."""
    try:
        signed = b64decode(signature)
    except ValueError:
        return True
    return not signed.startswith(_MARK) or signed == _MARK + _digest_text(text)


def is_base64(signature: str) -> bool:
    """Whether a signature is valid base64, in one of the two alphabets that Google's servers read.

    >>> is_base64("c2ln"), is_base64("skip_thought_signature_validator"), is_base64("no?")
    (True, True, False)
    """
    padding = "=" * (-len(signature) % 4)
    try:
        return bool(b64decode(signature.translate(_STANDARD) + padding, validate=True))
    except ValueError:
        return False


def _digest_text(text: str) -> bytes:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=15).digest()
