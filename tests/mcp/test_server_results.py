"""What a server sends, as the model reads it."""

from __future__ import annotations

from types import SimpleNamespace

from holdfast.core.messages import Media, Text
from holdfast.mcp.server_results import make_name, read_content

SECRET = "sk-proj-12345678901234567890123456789012"


def test_names_are_legal_unique_and_the_same_every_time() -> None:
    assert make_name("", "read-file_2") == "read-file_2"
    strange = ["a.b", "a/b", "a b", "ä", "", "x" * 65, "a_b", "日本"]
    names = [make_name("s_", one) for one in strange]
    assert len(set(names)) == len(strange)
    assert names == [make_name("s_", one) for one in strange]
    assert all(len(one) <= 64 and one.isascii() for one in names)


def test_content_is_read_cut_and_redacted() -> None:
    def block(**facts: object) -> SimpleNamespace:
        return SimpleNamespace(**facts)

    found = read_content(
        [
            block(type="text", text=f"the token={SECRET} is here"),
            block(type="image", data="iVBORw0KGgo=", mime_type="image/png"),
            block(type="audio", data="not base64!", mime_type="audio/wav"),
            block(
                type="resource",
                resource=block(text="a\nb", uri="file:///x.txt", mime_type="text/plain"),
            ),
            block(
                type="resource",
                resource=block(blob="AAE=", uri="file:///x/y.bin", mime_type=None),
            ),
            block(
                type="resource_link",
                uri="https://x.example/a",
                name="a",
                title=None,
                description="Doc",
            ),
            block(type="hologram"),
        ]
    )
    assert found == [
        Text("the token=[redacted] is here"),
        Media("image/png", data=b"\x89PNG\r\n\x1a\n"),
        Text("(content of the type 'audio/wav' that is not base64)"),
        Text("a\nb"),
        Media("application/octet-stream", data=b"\x00\x01", name="y.bin"),
        Text("a: Doc (https://x.example/a)"),
        Text("(content of the unknown kind 'hologram')"),
    ]
    assert read_content([], {"n": 1}) == [Text('{"n":1}')]
    assert read_content([]) == [Text("(no result)")]
