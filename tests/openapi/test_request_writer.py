"""Arguments in the styles of OpenAPI, and path parameters that stay in their segments."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import parse_qsl, unquote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.openapi.api_operations import BodyPlan, ParameterPlan, RequestPlan
from holdfast.openapi.request_writer import WrongArgumentsError, find_escape, write_request

LIST, OBJECT = ["blue", "black"], {"R": 100, "G": 200}


def write(where: Any, style: Any, value: object, *, explode: bool, **more: Any) -> str:
    """Return a parameter `color` as it is written at its place."""
    plan = ParameterPlan("color", where, "color", style, explode, **more)
    path = "/x/{color}" if where == "path" else "/x"
    written = write_request(RequestPlan("GET", path, (plan,)), {"color": value}, "k")
    if where == "path":
        return written.path.removeprefix("/x/")
    if where == "query":
        return written.path.removeprefix("/x").removeprefix("?")
    return dict(written.headers).get("color" if where == "header" else "Cookie", "")


# The table of the specification, and values that must be encoded.
STYLES = [
    ("path", "simple", False, "a b/c" .replace("/", ""), "a%20bc"),
    ("path", "simple", False, LIST, "blue,black"),
    ("path", "simple", False, OBJECT, "R,100,G,200"),
    ("path", "simple", True, OBJECT, "R=100,G=200"),
    ("path", "label", False, "blue", ".blue"),
    ("path", "label", False, LIST, ".blue,black"),
    ("path", "label", True, LIST, ".blue.black"),
    ("path", "label", False, OBJECT, ".R,100,G,200"),
    ("path", "label", True, OBJECT, ".R=100.G=200"),
    ("path", "matrix", False, "blue", ";color=blue"),
    ("path", "matrix", False, LIST, ";color=blue,black"),
    ("path", "matrix", True, LIST, ";color=blue;color=black"),
    ("path", "matrix", False, OBJECT, ";color=R,100,G,200"),
    ("path", "matrix", True, OBJECT, ";R=100;G=200"),
    ("query", "form", True, "a&b=c#d +", "color=a%26b%3Dc%23d%20%2B"),
    ("query", "form", True, LIST, "color=blue&color=black"),
    ("query", "form", False, LIST, "color=blue,black"),
    ("query", "form", True, OBJECT, "R=100&G=200"),
    ("query", "form", False, OBJECT, "color=R,100,G,200"),
    ("query", "form", True, [], ""),
    ("query", "form", True, True, "color=true"),
    ("query", "form", True, 1.5, "color=1.5"),
    ("query", "form", True, [None, {"a": 1}], "color=&color=%7B%22a%22%3A1%7D"),
    ("query", "spaceDelimited", False, LIST, "color=blue%20black"),
    ("query", "pipeDelimited", False, LIST, "color=blue%7Cblack"),
    ("query", "deepObject", True, OBJECT, "color%5BR%5D=100&color%5BG%5D=200"),
    ("query", "deepObject", True, {"a": {"b": [1, 2]}}, "color%5Ba%5D%5Bb%5D%5B0%5D=1&color%5Ba%5D%5Bb%5D%5B1%5D=2"),
    ("header", "simple", False, LIST, "blue,black"),
    ("header", "simple", False, OBJECT, "R,100,G,200"),
    ("header", "simple", True, OBJECT, "R=100,G=200"),
    ("cookie", "form", False, "a;b", "color=a%3Bb"),
    ("cookie", "form", True, LIST, "color=blue; color=black"),
]  # fmt: skip


@pytest.mark.parametrize(("where", "style", "explode", "value", "expected"), STYLES)
def test_each_style_at_its_place(
    where: str, style: str, explode: bool, value: object, expected: str
) -> None:
    assert write(where, style, value, explode=explode) == expected


def test_reserved_characters_and_json() -> None:
    assert write("query", "form", "a/b?c&d", explode=True, is_reserved=True) == "color=a/b?c%26d"
    assert write("query", "form", {"a": [1]}, explode=True, is_json=True) == (
        "color=%7B%22a%22%3A%5B1%5D%7D"
    )
    assert (
        write("path", "simple", "docs/a b.md", explode=False, has_slashes=True) == "docs/a%20b.md"
    )


ESCAPES = [
    "..", ".", "a/b", "a\\b", "%2e%2e", "%2E.", "..%2fa", "%252e%252e", "a%2Fb", "a%5cb", "..;x", "a\nb", "a%00b", "",
    " .. ", "%25252e%25252e", "%2525252525252525252525252f",
]  # fmt: skip


@pytest.mark.parametrize("value", ESCAPES)
@pytest.mark.parametrize("shape", ["text", "list", "key"])
def test_a_path_parameter_that_could_leave_its_segment_is_refused(value: str, shape: str) -> None:
    given: dict[str, object] = {"text": value, "list": [value], "key": {value: value}}
    with pytest.raises(WrongArgumentsError) as caught:
        write("path", "simple", given[shape], explode=False)
    assert caught.value.problem.path == "color"
    assert caught.value.problem.expected.startswith("must ")


@pytest.mark.parametrize(
    "value", ["../a", "a/../b", "a//b", "%2e%2e/x", "a%2f..%2fb", "a\\..\\b", "/a"]
)
def test_a_path_of_several_segments_stays_below_its_place(value: str) -> None:
    with pytest.raises(WrongArgumentsError):
        write("path", "simple", value, explode=False, has_slashes=True)


@settings(max_examples=30, deadline=None)
@given(st.text(max_size=12) | st.sampled_from(ESCAPES))
def test_a_value_comes_back_as_one_segment_or_is_refused(value: str) -> None:
    try:
        written = write("path", "simple", value, explode=False)
    except WrongArgumentsError:
        assert value == "" or find_escape(value, may_have_slashes=False)
        return
    assert "/" not in written
    assert written not in (".", "..")
    assert unquote(written) == value.encode("utf-8", "replace").decode()


@settings(max_examples=30, deadline=None)
@given(st.lists(st.text(max_size=8), max_size=4))
def test_values_of_a_query_come_back(values: list[str]) -> None:
    written = write("query", "form", values, explode=True)
    expected = [one.encode("utf-8", "replace").decode() for one in values]
    assert [value for _, value in parse_qsl(written, keep_blank_values=True)] == expected


@pytest.mark.parametrize("value", ["a\r\nX: y", "é", "\x00"])
def test_a_header_that_cannot_be_sent_is_refused(value: str) -> None:
    with pytest.raises(WrongArgumentsError, match="sent as a header"):
        write("header", "simple", value, explode=False)


def write_body(kind: Any, value: object, **more: Any) -> tuple[str, bytes]:
    types = {
        "json": "application/json",
        "form": "application/x-www-form-urlencoded",
        "multipart": "multipart/form-data",
    }
    plan = BodyPlan("body", kind, types.get(kind, "application/octet-stream"), **more)
    written = write_request(RequestPlan("POST", "/x", (), plan), {"body": value}, "k")
    return dict(written.headers)["Content-Type"], written.body


def test_bodies_of_each_kind() -> None:
    value = {"a": [1, "ü"], "b": None}
    assert json.loads(write_body("json", value)[1]) == value
    form = {"a": ["x", "y&"], "b": None, "c": {"d": 1}, "e": {"f": {"g": 2}}}
    assert write_body("form", form, encodings={"e": ("deepObject", True)}) == (
        "application/x-www-form-urlencoded",
        b"a=x&a=y%26&c=%7B%22d%22%3A1%7D&e%5Bf%5D%5Bg%5D=2",
    )
    file = {"name": 'a"\r\n.txt', "base64": "AAH/"}
    kind, body = write_body(
        "multipart", {"note": "é", "meta": {"x": 1}, "file": [file]}, files=frozenset({"file"})
    )
    boundary = kind.partition("boundary=")[2].encode()
    assert body.count(b"--" + boundary) == 4
    assert b'name="note"\r\n\r\n\xc3\xa9\r\n' in body
    assert b'name="meta"\r\nContent-Type: application/json\r\n\r\n{"x":1}\r\n' in body
    assert b'name="file"; filename="a%22%0D%0A.txt"' in body
    assert b"\r\n\r\n\x00\x01\xff\r\n" in body
    assert write_body("file", {"name": "a", "text": "hi"})[1] == b"hi"


@pytest.mark.parametrize(
    "value", [{"name": "a"}, {"name": "a", "text": "", "base64": ""}, {"name": "a", "base64": "%"}]
)
def test_a_file_has_one_content(value: object) -> None:
    with pytest.raises(WrongArgumentsError, match="body"):
        write_body("file", value)
