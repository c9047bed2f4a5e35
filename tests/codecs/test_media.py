"""Pictures and files are what they say, or they are refused before they are sent."""

import base64

import pytest

from holdfast.codecs.anthropic.codec import AnthropicCodec
from holdfast.codecs.media import inline_bytes, media_type_of
from holdfast.codecs.openai_responses.codec import ResponsesCodec
from holdfast.codecs.wire import Codec
from holdfast.core.errors import ConfigurationError
from holdfast.core.messages import Media, assistant, user
from holdfast.core.model_request import ModelRequest

GOOD = {
    "image/png": b"\x89PNG\r\n\x1a\n",
    "image/jpeg": b"\xff\xd8\xff\xe0",
    "image/gif": b"GIF89a",
    "image/webp": b"RIFF\x00\x00\x00\x00WEBP",
    "application/pdf": b"\xef\xbb\xbf%PDF-1.7",
    "text/plain": b"anything",
    "application/zip": b"anything",
}


@pytest.mark.parametrize(("kind", "data"), GOOD.items())
def test_good_bytes_pass_inline_and_as_an_address(kind: str, data: bytes) -> None:
    assert inline_bytes(Media(kind, data=data)) == data
    address = f"data:{kind};base64,{base64.b64encode(data).decode()}"
    assert inline_bytes(Media(kind, url=address)) == data


@pytest.mark.parametrize("kind", [kind for kind in GOOD if not kind.endswith(("plain", "zip"))])
@pytest.mark.parametrize("data", [b"", b"<html>", b"RIFF\x00\x00\x00\x00WAVE"])
def test_other_bytes_are_refused(kind: str, data: bytes) -> None:
    with pytest.raises(ConfigurationError) as caught:
        inline_bytes(Media(kind, data=data))
    assert caught.value.argument == "media"


@pytest.mark.parametrize("url", ["data:", "data:image/png,abc", "data:image/png;base64,?"])
def test_broken_addresses_are_refused(url: str) -> None:
    with pytest.raises(ConfigurationError):
        inline_bytes(Media("image/png", url=url))


def test_other_addresses_are_not_fetched() -> None:
    assert inline_bytes(Media("image/png", url="https://example.org/a.png")) is None


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ("image/png", "image/png"),
        ("Image/JPG", "image/jpeg"),
        ("image/pjpeg", "image/jpeg"),
        ("text/plain; charset=utf-8", "text/plain"),
    ],
)
def test_types_are_compared_without_case_and_parameters(given: str, wanted: str) -> None:
    assert media_type_of(Media(given, data=b"x")) == wanted


def test_an_address_says_its_own_type_where_the_media_leaves_it_open() -> None:
    assert media_type_of(Media("image/*", url="data:image/gif;base64,R0lGODlh")) == "image/gif"
    assert media_type_of(Media("image/png", url="data:image/gif;base64,R0lGODlh")) == "image/png"


@pytest.mark.parametrize("codec", [AnthropicCodec(), ResponsesCodec()], ids=lambda one: one.name)
def test_an_image_of_another_wire_is_replaced_by_a_note_and_the_session_continues(
    codec: Codec,
) -> None:
    drawn = assistant(Media("image/png", data=b"\x89PNG\r\n\x1a\n"))
    request = ModelRequest(model="m", messages=[user("Draw"), drawn, user("Now what?")])
    body = codec.encode(request).body.decode()
    assert "[Here the assistant made a file of type image/png.]" in body
    assert "iVBOR" not in body
