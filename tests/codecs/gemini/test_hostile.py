"""No bytes crash the decoder, however they are cut, and none cost more than linear time."""

import json
import time
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.codecs.gemini.bodies import array, call, chunk, deltas, events, read, text, whole
from tests.linear import is_linear

from holdfast.codecs.gemini.calls import PartialArguments
from holdfast.codecs.gemini.decode import DocumentSplitter
from holdfast.core.messages import ReplyKind

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4)
    ),
    max_leaves=12,
)
# A loaded machine is slow, which does not count as a failure.
FEW = settings(max_examples=80, deadline=None)
FIELDS = st.sampled_from(
    ["candidates", "content", "parts", "text", "thought", "thoughtSignature", "functionCall", "name",
     "args", "id", "partialArgs", "willContinue", "jsonPath", "stringValue", "inlineData", "fileData",
     "finishReason", "finishMessage", "index", "usageMetadata", "promptTokenCount", "error",
     "promptFeedback", "blockReason", "groundingMetadata", "responseId", "modelVersion"]
)  # fmt: skip
SHAPED = st.recursive(
    JSON,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(FIELDS, inner, max_size=5),
    max_leaves=14,
)
REAL = [
    chunk(text("Hel"), text("th", thought=True, thoughtSignature="S")),
    chunk({**call("pay", willContinue=True), "thoughtSignature": "S"}),
    chunk(
        {
            "functionCall": {
                "partialArgs": [{"jsonPath": "$.a[0]", "stringValue": "x"}],
                "willContinue": True,
            }
        }
    ),
    chunk({"functionCall": {}}, finish="STOP", usageMetadata={"promptTokenCount": 3}),
]
FRAMES = (
    events,
    array,
    lambda *chunks: b"\n".join(map(whole, chunks)),
    lambda *chunks: whole(chunks[0]),
)


@st.composite
def pieces(draw: st.DrawFn, body: bytes) -> list[bytes]:
    cuts = sorted(draw(st.lists(st.integers(0, len(body)), max_size=8)))
    return [body[a:b] for a, b in zip([0, *cuts], [*cuts, len(body)], strict=True)]


@given(
    st.data(),
    st.binary(max_size=300),
    st.sampled_from(["", "text/event-stream", "application/json"]),
)
@FEW
def test_any_bytes(data: st.DataObject, body: bytes, content_type: str) -> None:
    read(data.draw(pieces(body)), content_type)


@pytest.mark.slow  # takes half a second or more
@given(st.data(), st.lists(SHAPED, min_size=1, max_size=4), st.sampled_from(FRAMES))
@FEW
def test_any_json_of_our_fields(
    data: st.DataObject, chunks: list[object], frame: Callable[..., bytes]
) -> None:
    body = frame(*chunks)
    assert read(data.draw(pieces(body))).reply == read(body).reply


@given(st.data(), st.sampled_from(FRAMES))
@FEW
def test_a_real_body_with_damage(data: st.DataObject, frame: Callable[..., bytes]) -> None:
    body = bytearray(frame(*REAL))
    for _ in range(data.draw(st.integers(0, 4))):
        at = data.draw(st.integers(0, len(body) - 1))
        body[at : at + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=3))
    damaged = bytes(body)
    assembled = read(data.draw(pieces(damaged)))
    assert assembled.reply == read(damaged).reply
    for made in assembled.reply.calls:
        if assembled.reply.kind is ReplyKind.COMPLETE:
            assert isinstance(json.loads(made.arguments), dict)


@pytest.mark.slow  # takes half a second or more
@given(st.lists(st.dictionaries(FIELDS, JSON, max_size=5) | JSON, max_size=6))
@FEW
def test_any_partial_arguments(entries: list[object]) -> None:
    arguments = PartialArguments()
    for entry in entries:
        arguments.add_entry(entry)
    arguments.to_text(whole=True)


@pytest.mark.parametrize(
    "path",
    [None, "", "$", "city", "$..city", "$.a.", "$.a b", "$[", "$[-1]", "$[9]", "$.a[1]", "$.*", "$[0]",
     "$['a", "$.a" * 70, "$." + "a." * 5_000 + "a", "$" + "[0]" * 5_000],
)  # fmt: skip
def test_a_path_that_cannot_be_followed_spoils_the_call(path: object) -> None:
    arguments = PartialArguments()
    arguments.add_entry({"jsonPath": path, "stringValue": "x"})
    with pytest.raises(json.JSONDecodeError):
        json.loads(arguments.to_text(whole=True))


@pytest.mark.parametrize(
    ("path", "made"),
    [
        ("$.a.b", {"a": {"b": "x"}}),
        ("$['a b'].c", {"a b": {"c": "x"}}),
        ('$["a\\"b"]', {'a"b': "x"}),
        ("$.a[0][0].b", {"a": [[{"b": "x"}]]}),
        ("$.naïve-key", {"naïve-key": "x"}),
    ],
)
def test_paths(path: str, made: object) -> None:
    arguments = PartialArguments()
    arguments.add_entry({"jsonPath": path, "stringValue": "x"})
    assert json.loads(arguments.to_text(whole=True)) == made


@pytest.mark.parametrize(
    "entry",
    [{"jsonPath": "$.a"}, {"jsonPath": "$.a.b", "stringValue": "x"}, {"jsonPath": "$.a[0]", "boolValue": True}],
)  # fmt: skip
def test_a_value_that_does_not_fit_spoils_the_call(entry: object) -> None:
    arguments = PartialArguments()
    arguments.add_entry({"jsonPath": "$.a", "stringValue": "text"})
    arguments.add_entry(entry)
    assert arguments.to_text(whole=True) == "{"


def test_a_text_that_is_announced_to_grow_is_not_whole() -> None:
    arguments = PartialArguments()
    arguments.add_entry({"jsonPath": "$.a", "stringValue": "x", "willContinue": True})
    assert arguments.to_text(whole=True) == '{"a":"x"'


@pytest.mark.slow  # takes half a second or more
@given(st.lists(st.dictionaries(st.text(), JSON, max_size=3), max_size=5), st.data())
@FEW
def test_the_splitter_finds_every_object(objects: list[object], data: st.DataObject) -> None:
    splitter = DocumentSplitter()
    found = [
        json.loads(part)
        for piece in data.draw(pieces(array(*objects)[1:]))
        for part in splitter.feed(piece)
    ]
    assert found == json.loads(json.dumps(objects))
    assert splitter.ended


@given(st.binary(max_size=200), st.data())
@FEW
def test_the_splitter_takes_any_bytes(body: bytes, data: st.DataObject) -> None:
    once = DocumentSplitter()
    split = DocumentSplitter()
    found = [part for piece in data.draw(pieces(body)) for part in split.feed(piece)]
    assert found == once.feed(body)
    assert split.ended == once.ended


HOSTILE: dict[str, Callable[[int], bytes]] = {
    "open braces": lambda size: b"[" + b"{" * size,
    "close braces": lambda size: b"[" + b"}" * size,
    "brackets": lambda size: b"[" * size,
    "quotes": lambda size: b'[{"' + b'\\"' * size,
    "blanks": lambda size: b" " * size,
    "line ends": lambda size: b"data: {}\r" * size,
    "comments": lambda size: b": x\n" * size,
    "one event": lambda size: b"data: " + b"x" * size,
    "lines of one event": lambda size: b"data: {}\n" * size,
    "empty objects": lambda size: b"[" + b"{}," * size,
    "objects in one body": lambda size: b"{}\n" * size + b"{",
    "nested": lambda size: b"data: " + b'{"a":' * size + b"\n\n",
    "candidates": lambda size: whole({"candidates": [{"index": 1}] * size}),
    "parts": lambda size: whole(chunk(*[text("x")] * size)),
    "fragments": lambda size: events(
        chunk(call("f", willContinue=True)),
        *[
            chunk(
                {
                    "functionCall": {
                        "partialArgs": [
                            {"jsonPath": "$.a", "stringValue": "x", "willContinue": True}
                        ],
                        "willContinue": True,
                    }
                }
            )
        ]
        * (size // 40),
    ),
}


@pytest.mark.slow  # takes half a second or more
@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("step", [65_536, 7])
def test_hostile_bodies_cost_linear_time(name: str, step: int) -> None:
    def seconds(size: int) -> float:
        body = HOSTILE[name](size)
        cut = [body[at : at + step] for at in range(0, len(body), step)]
        began = time.process_time()
        deltas(cut)
        return time.process_time() - began

    seconds(100)
    assert is_linear(seconds, 1_500, 24_000, least=0.0004)
