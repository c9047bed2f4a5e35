"""Writes the arguments of a call into an HTTP request, in the styles of OpenAPI.

A value stays where its parameter is: it is encoded, and a path parameter that could leave its segment is refused, also
if it is encoded itself. This module must never add a credential, and must never send anything.
"""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Iterator, Mapping
from secrets import token_hex
from typing import Final, TypeAlias
from urllib.parse import quote, unquote

from msgspec import Struct

from holdfast.core.json_strict import dump_json
from holdfast.core.problems import Problem
from holdfast.core.value_wording import quote_value
from holdfast.openapi.api_operations import (
    BodyPlan,
    ParameterPlan,
    RequestPlan,
    Style,
    fill_template,
)

Pairs: TypeAlias = list[tuple[str, str]]
"""Names and values, encoded."""

_RESERVED: Final = ":/?@!$'()*,;[]"
"""The reserved characters that `allowReserved` leaves as they are; & and = and # would end a value."""

_MOST_DECODINGS: Final = 8
_EXACT: Final = 2**53
"""Up to here, each whole number is a float."""

_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


class WrongArgumentsError(Exception):
    """Arguments fit their schema and cannot be sent.

    Args:
        problem: what is wrong with one of them.
    """

    def __init__(self, problem: Problem) -> None:
        super().__init__(str(problem))
        self.problem = problem


class WrittenRequest(Struct, frozen=True):
    """A request without its credentials.

    Args:
        path: the path and the query, encoded.
        headers: the headers.
        body: the body.
    """

    path: str
    headers: tuple[tuple[str, str], ...]
    body: bytes = b""

    def __repr__(self) -> str:
        return f"WrittenRequest({len(self.path)} characters, {len(self.body)} bytes)"


def write_request(plan: RequestPlan, arguments: Mapping[str, object], key: str) -> WrittenRequest:
    """Return the request of a call.

    Args:
        plan: how the arguments become a request.
        arguments: the arguments, which fit their schema.
        key: the idempotency key of the call.

    Raises:
        WrongArgumentsError: a value cannot be sent at its place.
    """
    parts = _RequestParts()
    for parameter in plan.parameters:
        if not parameter.argument:
            parts.headers.append((parameter.name, key))
        elif parameter.argument in arguments:
            parts.add(parameter, arguments[parameter.argument])
    body = b""
    if plan.body is not None and plan.body.argument in arguments:
        media_type, body = _write_body(plan.body, arguments[plan.body.argument])
        parts.headers.append(("Content-Type", media_type))
    address = fill_template(plan.path, parts.path)
    if parts.query:
        address += "?" + _join_pairs(parts.query)
    if parts.cookies:
        pairs = (f"{name}={value}" for name, value in parts.cookies)
        parts.headers.append(("Cookie", "; ".join(pairs)))
    return WrittenRequest(address, tuple(parts.headers), body)


class _RequestParts:
    """The written parameters of a request, by where they are."""

    def __init__(self) -> None:
        self.path: dict[str, str] = {}
        self.query: Pairs = []
        self.headers: Pairs = []
        self.cookies: Pairs = []

    def add(self, parameter: ParameterPlan, value: object) -> None:
        """Write the value of a parameter; null is left out. Raises WrongArgumentsError."""
        if parameter.is_json:
            value = dump_json(value)
        style = (parameter.style, parameter.explode)
        if parameter.where == "path":
            self.path[parameter.name] = _write_path(parameter, value)
        elif value is None:
            return
        elif parameter.where == "header":
            self.headers.append((parameter.name, _write_header(parameter, value)))
        else:
            pairs = self.query if parameter.where == "query" else self.cookies
            pairs += write_pairs(parameter.name, value, style, is_reserved=parameter.is_reserved)


def _join_pairs(pairs: Pairs) -> str:
    return "&".join(f"{name}={value}" for name, value in pairs)


def write_scalar(value: object) -> str:
    """Return a value as the text of a parameter: an object in it is written as JSON, and 7.0, an integer, as 7.

    >>> write_scalar(True), write_scalar(1.5), write_scalar("a b"), write_scalar(None), write_scalar(7.0)
    ('true', '1.5', 'a b', '', '7')
    """
    if isinstance(value, float) and value.is_integer() and abs(value) < _EXACT:
        value = int(value)
    if isinstance(value, str):
        return value
    return "" if value is None else dump_json(value)


def _encode(value: object, reserved: str = "") -> str:
    return quote(write_scalar(value).encode("utf-8", "replace"), safe=reserved)


def write_pairs(
    name: str, value: object, style: tuple[Style, bool], *, is_reserved: bool = False
) -> Pairs:
    """Return the encoded names and values of a parameter in a query, a cookie or a form.

    Args:
        name: its name.
        value: its value.
        style: its style, and whether each value stands by itself.
        is_reserved: leave reserved characters as they are.

    >>> write_pairs("a", ["x y", "z"], ("form", True))
    [('a', 'x%20y'), ('a', 'z')]
    >>> write_pairs("a", {"b": {"c": 1}}, ("deepObject", True))
    [('a%5Bb%5D%5Bc%5D', '1')]
    """
    reserved = _RESERVED if is_reserved else ""
    kind, explode = style
    encoded = _encode(name)
    if kind == "deepObject" and isinstance(value, dict | list):
        return [(_encode(path), _encode(one, reserved)) for path, one in _list_deep(name, value)]
    if isinstance(value, dict):
        items = [(_encode(key), _encode(one, reserved)) for key, one in value.items()]
        if explode:
            return items
        texts = [text for pair in items for text in pair]
    elif isinstance(value, list):
        texts = [_encode(one, reserved) for one in value]
        if explode:
            return [(encoded, text) for text in texts]
    else:
        return [(encoded, _encode(value, reserved))]
    between = {"spaceDelimited": "%20", "pipeDelimited": "%7C"}.get(kind, ",")
    return [(encoded, between.join(texts))] if texts else []


def _list_deep(path: str, value: object) -> Iterator[tuple[str, object]]:
    """Yield the values in an object with their paths, such as `a[b][0]`."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _list_deep(f"{path}[{key}]", inner)
    elif isinstance(value, list):
        for at, inner in enumerate(value):
            yield from _list_deep(f"{path}[{at}]", inner)
    else:
        yield path, value


def _write_header(parameter: ParameterPlan, value: object) -> str:
    if isinstance(value, dict):
        pairs = [(key, write_scalar(one)) for key, one in value.items()]
        between = "=" if parameter.explode else ","
        text = ",".join(f"{key}{between}{one}" for key, one in pairs)
    elif isinstance(value, list):
        text = ",".join(map(write_scalar, value))
    else:
        text = write_scalar(value)
    if _CONTROL.search(text) or not text.isascii():
        expected = "must be ASCII text without line breaks, since it is sent as a header"
        raise WrongArgumentsError(Problem(parameter.argument, expected, quote_value(value)))
    return text


def _write_path(parameter: ParameterPlan, value: object) -> str:
    _check_segment(parameter, value)
    name, explode = _encode(parameter.name), parameter.explode
    if isinstance(value, dict):
        items = [(_encode(key), _encode(one)) for key, one in value.items()]
        between = "=" if explode else ","
        texts = [f"{key}{between}{one}" for key, one in items]
    elif isinstance(value, list):
        texts = [_encode(one) for one in value]
    elif parameter.has_slashes:
        return "/".join(_encode(one) for one in write_scalar(value).split("/"))
    else:
        texts = [_encode(value)]
    if parameter.style == "label":
        return "." + ("." if explode else ",").join(texts)
    if parameter.style == "matrix":
        if isinstance(value, dict) and explode:
            return "".join(f";{text}" for text in texts)
        if explode:
            return "".join(f";{name}={text}" for text in texts)
        return f";{name}={','.join(texts)}"
    return ",".join(texts)


def _check_segment(parameter: ParameterPlan, value: object) -> None:
    """Raise WrongArgumentsError if a value could leave its segment of the path, once or more often decoded."""
    parts: list[object] = [value]
    if isinstance(value, dict):
        parts = [part for pair in value.items() for part in pair]
    elif isinstance(value, list):
        parts = value
    texts = [write_scalar(part) for part in parts]
    if not any(texts):
        expected = "must not be empty, since it is a part of the path"
        raise WrongArgumentsError(Problem(parameter.argument, expected, quote_value(value)))
    for text in texts:
        if problem := find_escape(text, may_have_slashes=parameter.has_slashes):
            raise WrongArgumentsError(Problem(parameter.argument, problem, quote_value(value)))


def find_escape(text: str, *, may_have_slashes: bool) -> str:
    """Return why a value must not stand in a path; "" if it may.

    Args:
        text: the value.
        may_have_slashes: it may have several segments, such as the path of a file.

    >>> find_escape("a b", may_have_slashes=False)
    ''
    >>> find_escape("%252e%252E/x", may_have_slashes=True)
    'must not have the segments . or .., also not encoded'
    """
    for _ in range(_MOST_DECODINGS):
        segments = re.split(r"[/\\]", text)
        if len(segments) > 1 and (not may_have_slashes or "\\" in text):
            return "must not have slashes or backslashes, also not encoded"
        if any(segment.partition(";")[0].strip() in (".", "..") for segment in segments):
            return "must not have the segments . or .., also not encoded"
        if len(segments) > 1 and "" in segments[:-1]:
            return "must not have empty segments"
        if _CONTROL.search(text):
            return "must not have control characters, also not encoded"
        decoded = unquote(text)
        if decoded == text:
            return ""
        text = decoded
    return "must not be encoded"


def _write_body(plan: BodyPlan, value: object) -> tuple[str, bytes]:
    """Return the content type of a body, and the body."""
    if plan.kind == "json":
        return plan.media_type, dump_json(value).encode()
    if plan.kind == "text":
        return f"{plan.media_type}; charset=utf-8", write_scalar(value).encode("utf-8", "replace")
    if plan.kind == "file":
        return plan.media_type, _read_file(plan.argument, value)[1]
    if not isinstance(value, dict):
        problem = Problem(plan.argument, "must be an object", quote_value(value))
        raise WrongArgumentsError(problem)
    if plan.kind == "form":
        pairs: Pairs = []
        for name, one in value.items():
            if one is not None:
                pairs += _write_form_field(plan, name, one)
        return plan.media_type, _join_pairs(pairs).encode()
    return _write_multipart(plan, value)


def _write_form_field(plan: BodyPlan, name: str, value: object) -> Pairs:
    style = plan.encodings.get(name)
    if style is not None:
        return write_pairs(name, value, style)
    if isinstance(value, dict):
        return [(_encode(name), _encode(value))]  # as JSON
    return write_pairs(name, value, ("form", True))


def _write_multipart(plan: BodyPlan, value: dict[str, object]) -> tuple[str, bytes]:
    boundary = token_hex(16)
    pieces: list[bytes] = []
    for name, one in value.items():
        for item in one if isinstance(one, list) else [one]:
            if item is None:
                continue
            head = f'form-data; name="{_quote_name(name)}"'
            kind = ""
            if name in plan.files:
                place = f"{plan.argument}.{name}"
                file_name, content = _read_file(place, item)
                head += f'; filename="{_quote_name(file_name)}"'
                kind = "Content-Type: application/octet-stream\r\n"
            elif isinstance(item, dict | list):
                content = dump_json(item).encode()
                kind = "Content-Type: application/json\r\n"
            else:
                content = write_scalar(item).encode("utf-8", "replace")
            start = f"--{boundary}\r\nContent-Disposition: {head}\r\n{kind}\r\n"
            pieces += [start.encode("utf-8", "replace"), content, b"\r\n"]
    pieces.append(f"--{boundary}--\r\n".encode())
    return f"{plan.media_type}; boundary={boundary}", b"".join(pieces)


def _quote_name(name: str) -> str:
    """Return a name for a header of a part, as browsers write it."""
    return name.replace('"', "%22").replace("\r", "%0D").replace("\n", "%0A")


def _read_file(place: str, value: object) -> tuple[str, bytes]:
    """Return the name and the content of a file of the model."""
    given = value if isinstance(value, dict) else {}
    text, encoded = given.get("text"), given.get("base64")
    if isinstance(text, str) and encoded is None:
        return str(given.get("name", "")), text.encode("utf-8", "replace")
    if isinstance(encoded, str) and text is None:
        try:
            return str(given.get("name", "")), b64decode(encoded, validate=True)
        except ValueError:
            problem = Problem(f"{place}.base64", "must be base64", quote_value(encoded))
            raise WrongArgumentsError(problem) from None
    expected = "must have a text or a base64, and not both"
    raise WrongArgumentsError(Problem(place, expected, quote_value(value)))
