"""The quick reading of the commonest objects: whatever fits it, it reads as the careful one does."""

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.codecs.openai_chat.bodies import Json, call, chunk, deltas, stream, whole
from tests.corpus import rows

from holdfast.codecs.json_text import read_json
from holdfast.codecs.openai_chat.chunk_reader import OpenAIChatChunkReader
from holdfast.codecs.openai_chat.decode import decode_chunk, read_whole_reply
from holdfast.codecs.openai_chat.errors import classify
from holdfast.codecs.openai_chat.vocabulary import parse_usage
from holdfast.core.deltas import Delta
from holdfast.core.messages import Usage


def carefully(body: bytes) -> list[Delta]:
    pieces, out = OpenAIChatChunkReader(classify, "openai"), list[Delta]()
    value = read_json(body)
    assert isinstance(value, dict)
    pieces.read_object(value, out, whole=True)
    pieces.end_reply(out, whole=True)
    return out


USAGE = {
    "prompt_tokens": 120,
    "completion_tokens": 24,
    "prompt_tokens_details": {"cached_tokens": 64},
    "completion_tokens_details": {"reasoning_tokens": 7},
}
PAY = call("pay", '{"sum": 3}', id="call_1")


class TestWhole:
    @pytest.mark.parametrize(
        "body",
        [
            whole({"content": "Hello"}, usage=USAGE),
            whole({"content": None, "tool_calls": [PAY, PAY], "refusal": None}, "tool_calls"),
            whole({"content": "", "reasoning_content": "Hm", "annotations": []}, "length"),
            whole({"content": "a", "tool_calls": [{**PAY, "index": 5}]}, "odd"),
        ],
    )
    def test_the_commonest_replies_fit(self, body: bytes) -> None:
        assert read_whole_reply(body) == carefully(body)

    @pytest.mark.parametrize(
        "body",
        [
            b"",
            b"{",
            b'{"choices": []}',
            whole({"content": "a"}, None),
            whole({"content": "a"}, error={"message": "no"}),
            whole({"content": ["a"]}),
            whole({"refusal": "no"}),
            whole({"content": "a", "audio": {"id": "x"}}),
            whole({"content": "a", "reasoning_details": [{"type": "x"}]}),
            whole({"tool_calls": [{**PAY, "extra_content": {}}]}, "tool_calls"),
            whole({"tool_calls": [{**PAY, "id": ""}]}, "tool_calls"),
            whole({"content": "a"}, usage={"prompt_tokens": "9"}),
            whole({"content": "a"}) + b"x",
            b"[" * 100_000,
        ],
    )
    def test_what_could_mean_more_is_left_to_the_careful_way(self, body: bytes) -> None:
        assert read_whole_reply(body) is None

    def test_every_recorded_reply_that_fits_reads_the_same(self) -> None:
        fitting = 0
        found = [
            row
            for row in rows("openai_chat")
            if row.framing == "json" and (row.status or 200) < 300
        ]
        for row in found:
            if (quick := read_whole_reply(row.body)) is not None:
                fitting += 1
                assert quick == carefully(row.body), row.id
        assert fitting > len(found) / 2


COUNT = st.one_of(st.integers(-2, 9), st.none(), st.booleans(), st.floats(0, 9), st.just("3"))
NAMES = (
    "prompt_tokens input_tokens completion_tokens output_tokens prompt_cache_hit_tokens "
    "cached_tokens num_cached_tokens reasoning_tokens cache_write_tokens cache_creation_tokens"
)
DETAILS = ("prompt_tokens_details", "input_tokens_details", "completion_tokens_details")
FIELDS = st.dictionaries(st.sampled_from(NAMES.split()), COUNT, max_size=6)
MESSAGES = st.fixed_dictionaries(
    {},
    optional={
        "content": st.sampled_from([None, "", "Hi", ["Hi"], 3]),
        "reasoning": st.sampled_from([None, "", "Hm", {}]),
        "reasoning_content": st.sampled_from([None, "", "Hm"]),
        "reasoning_details": st.sampled_from([None, [], [{"text": "Hm"}]]),
        "refusal": st.sampled_from([None, "", "No"]),
        "tool_calls": st.lists(
            st.sampled_from([PAY, {**PAY, "index": 0}, {**PAY, "id": None}, call("a"), {}, None]),
            max_size=3,
        ),
    },
)


BESIDE: st.SearchStrategy[Json] = st.fixed_dictionaries(
    {},
    optional={
        "citations": st.sampled_from([None, [], ["https://a.example"]]),
        "search_results": st.sampled_from([None, [], [{"url": "https://a.example"}]]),
        "related_questions": st.sampled_from([None, "Why?"]),
        "base_resp": st.sampled_from([None, {}, {"status_code": 0}, {"status_code": 1027}]),
        "x_groq": st.sampled_from([None, {"error": "no"}]),
        "error": st.sampled_from([None, "", {"message": "no"}]),
        "object": st.sampled_from([None, "", "error", "chat.completion"]),
    },
)


@given(
    MESSAGES,
    st.sampled_from(["stop", "tool_calls", "", None, "error", "odd", 1]),
    st.one_of(st.none(), FIELDS, st.dictionaries(st.sampled_from(DETAILS), FIELDS)),
    BESIDE,
)
def test_whatever_fits_reads_the_same(
    message: dict[str, object], finish: object, usage: dict[str, object] | None, beside: Json
) -> None:
    body = whole(message, finish, usage=usage, **beside)
    quick = read_whole_reply(body)
    assert quick is None or quick == carefully(body)


BEGUN = chunk({"tool_calls": [call("pay", id="call_1", index=0)]})
MORE = st.lists(
    st.sampled_from([{"index": 0, "function": {"arguments": "{"}}, {"index": 1}, {**PAY}, None]),
    max_size=2,
)


@pytest.mark.slow  # takes half a second or more
@given(
    st.booleans(),
    st.lists(st.tuples(MESSAGES, st.none() | MORE, st.sampled_from([None, "", "stop"]), BESIDE)),
)
def test_whatever_is_streamed_reads_the_same(
    calls: bool, said: list[tuple[Json, object, object, Json]]
) -> None:
    chunks = [chunk({"role": "assistant", "content": ""}), *([BEGUN] if calls else [])]
    for message, more, finish, beside in said:
        delta = message if more is None else {**message, "tool_calls": more}
        chunks.append(chunk(delta, finish, **beside))
    pieces, out = OpenAIChatChunkReader(classify, "openai"), list[Delta]()
    for one in chunks:
        pieces.read_object(one, out)
    pieces.end_reply(out)
    assert deltas(stream(*chunks)) == out


@given(FIELDS, FIELDS)
def test_usage_of_any_form_counts_no_strange_number(
    usage: dict[str, object], details: dict[str, object]
) -> None:
    found = parse_usage({**usage, "prompt_tokens_details": details})
    assert all(getattr(found, name) >= 0 for name in Usage.__struct_fields__)
    documented = {"prompt_tokens": 9, "completion_tokens": 2}
    quick = parse_usage(documented | {"prompt_tokens_details": details})
    careful = parse_usage(documented | {"prompt_tokens_details": {**details}, "output_tokens": 0})
    assert quick == careful


class TestChunk:
    def test_mere_text_fits(self) -> None:
        found = decode_chunk(json.dumps(chunk({"content": "Hi"})).encode())
        assert found.choices[0].delta.content == "Hi"

    @pytest.mark.parametrize(
        "value",
        [
            chunk({"content": "Hi"}, "stop"),
            chunk({"content": "Hi"}, usage={"prompt_tokens": 3}),
            chunk({"content": "Hi"}, x_groq={"usage": {}}),
            chunk({"function_call": {"name": "pay"}}),
            chunk({"tool_calls": [{"index": 0, "id": "c", "function": {"arguments": ""}}]}),
            {"choices": []},
            {"error": "no", "choices": [{"delta": {}}]},
        ],
    )
    def test_anything_else_does_not(self, value: object) -> None:
        with pytest.raises(msgspec.ValidationError):
            decode_chunk(json.dumps(value).encode())
