"""Habits of endpoints that a profile names: whole or refused at every byte, and never a wrong answer."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.codecs.openai_chat.bodies import DONE, STREAM, call, chunk, event, stream, whole
from tests.corpus import rows
from tests.linear import is_linear

from holdfast.calls.object_fold import ObjectFold
from holdfast.calls.response_reader import ResponseReader
from holdfast.codecs.assemble import AssembledReply, Assembler
from holdfast.codecs.endpoint_profile import EndpointProfile
from holdfast.codecs.openai_chat.codec import OpenAIChat
from holdfast.codecs.openai_chat.reply_habits import ArgumentReader, HabitReader
from holdfast.core.deltas import Delta, ReasoningDelta, TextDelta, ToolCallDelta
from holdfast.core.errors import ConfigurationError, NoTextError, TruncatedError
from holdfast.core.messages import Message, Reasoning, Reply, ReplyKind, Text, user
from holdfast.core.model_request import ModelRequest, ToolSpec
from holdfast.models.presets import PRESETS

THINK = EndpointProfile(thinking_tags=("<think>", "<thinking>", "[THINK]"))
INSIDE = EndpointProfile(thinking_tags=("</think>",))
HERMES = EndpointProfile(text_calls="hermes", thinking_tags=("<think>",))
REPEATING = EndpointProfile(repeats_arguments=True)
ACCEPTED = (ReplyKind.COMPLETE, ReplyKind.MALFORMED_CALL)


def read(
    body: bytes,
    profile: EndpointProfile,
    content_type: str = STREAM,
    request: ModelRequest | None = None,
) -> AssembledReply:
    decoder = OpenAIChat(profile).make_decoder(content_type, request=request)
    assembler = Assembler(profile, "openai_chat")
    assembler.feed_all(decoder.feed(body))
    assembler.feed_all(decoder.close())
    return assembler.finish()


def streamed(text: str, size: int = 3, finish: str = "stop") -> bytes:
    pieces = [text[at : at + size] for at in range(0, len(text), size)]
    return stream(*(chunk({"content": piece}) for piece in pieces), chunk({}, finish))


def contents(reply: Reply) -> tuple[str, str, list[tuple[str, str]]]:
    thoughts = "".join(part.text for part in reply.parts if isinstance(part, Reasoning))
    return thoughts, reply.text, [(call.name, call.arguments) for call in reply.calls]


BEGINNINGS = {
    # ggml-org/llama.cpp#13275 and bold84/cot_proxy#3: Qwen 3 in llama.cpp and Ollama.
    "think": ("<think>\nHm.\n</think>\n\nYes.", "Hm.\n", "Yes."),
    "empty": ("<think>\n\n</think>\n\nYes.", "", "Yes."),
    "thinking": ("<thinking> The user asks. </thinking>\nYes.", "The user asks. ", "Yes."),
    "Magistral": ("[THINK]Hm[/THINK]Yes.", "Hm", "Yes."),
    "blanks before": (" \n<think>Hm</think> Yes", "Hm", "Yes"),
    "a later tag": ("<think>a</think>Use <think>b</think>.", "a", "Use <think>b</think>."),
    "another tag inside": ("<think>a [/THINK] b</think>Yes", "a [/THINK] b", "Yes"),
    "not at the beginning": ("So <think>a</think>", "", "So <think>a</think>"),
    "almost": ("<thinks>a</thinks>", "", "<thinks>a</thinks>"),
    "a closing tag alone": ("Hello!</think>\n\n", "", "Hello!</think>\n\n"),
    "less than": ("<", "", "<"),
    "nothing special": ("Hello", "", "Hello"),
}


@pytest.mark.parametrize(("text", "thought", "answer"), BEGINNINGS.values(), ids=BEGINNINGS)
def test_thinking_in_tags_is_reasoning(text: str, thought: str, answer: str) -> None:
    for size in (1, 2, 5, len(text)):
        assert contents(read(streamed(text, size), THINK).reply) == (thought, answer, [])
    assert contents(read(whole({"content": text}), THINK, "").reply) == (thought, answer, [])


def test_a_reply_may_begin_inside_of_a_tag_if_the_profile_says_so() -> None:
    """ggml-org/llama.cpp#11861, deepseek-ai/DeepSeek-R1#352: the chat template writes `<think>`."""
    text = "Hm.\n</think>\n\nYes."
    assert contents(read(streamed(text), INSIDE).reply) == ("Hm.\n", "Yes.", [])
    assert contents(read(streamed("<think>" + text), INSIDE).reply) == ("Hm.\n", "Yes.", [])
    assert contents(read(streamed(text), THINK).reply) == ("", text, [])


@pytest.mark.parametrize("profile", [THINK, INSIDE])
def test_thinking_that_is_never_closed_is_no_answer(profile: EndpointProfile) -> None:
    assembled = read(streamed("<think>The answer is 4."), profile)
    assert assembled.reply.kind is ReplyKind.ONLY_REASONING
    assert isinstance(assembled.error, NoTextError)
    cut = read(streamed("<think>The answer is", finish="length"), profile)
    assert isinstance(cut.error, TruncatedError)
    assert contents(cut.reply) == ("The answer is", "", [])


def test_reasoning_in_a_field_of_its_own_leaves_the_text_as_it_is() -> None:
    text = "<think>a</think>b"
    body = whole({"reasoning_content": "Hm", "content": text})
    assert contents(read(body, THINK, "").reply) == ("Hm", text, [])
    chunks = stream(chunk({"reasoning_content": "Hm"}), chunk({"content": text}), chunk({}, "stop"))
    assert contents(read(chunks, THINK).reply) == ("Hm", text, [])


def test_reasoning_is_streamed_as_it_comes_and_no_piece_of_a_tag_is_shown() -> None:
    reader = HabitReader(THINK)
    seen: list[list[tuple[type[Delta], str]]] = []
    for letter in "<think>Hi</think>\n Yes<think>":
        deltas = reader.read_deltas([TextDelta(letter)])
        seen.append([(type(delta), delta.text) for delta in deltas])  # type: ignore[union-attr]
    flat = [delta for deltas in seen for delta in deltas]
    assert flat[:2] == [(ReasoningDelta, "H"), (ReasoningDelta, "i")]
    assert seen[7] == [(ReasoningDelta, "H")]  # with the chunk that has the letter
    assert "".join(text for kind, text in flat if kind is TextDelta) == "Yes<think>"


def test_thinking_in_tags_is_not_sent_back() -> None:
    profile = EndpointProfile(thinking_tags=("<think>",), reasoning_field="reasoning_content")
    reply = read(streamed("<think>secret</think>Yes."), profile).reply
    for field in ("reasoning_content", "content"):
        codec = OpenAIChat(EndpointProfile(reasoning_field=field))
        request = ModelRequest(model="m", messages=[user("a"), reply.message, user("b")])
        body = codec.encode(request).body
        assert b"secret" not in body
        assert b"Yes." in body
    native = Message("assistant", (Reasoning("kept"), Text("Yes.")))
    kept = OpenAIChat(profile).encode(ModelRequest(model="m", messages=[user("a"), native])).body
    assert b"kept" in kept


def test_a_continued_reply_does_not_begin_with_tags() -> None:
    request = ModelRequest(model="m", messages=[user("a")], prefill="So")
    reply = read(streamed("<think>a</think>"), THINK, request=request).reply
    assert reply.text == "<think>a</think>"
    codec = OpenAIChat(EndpointProfile(prefill="final_message"))
    calls = OpenAIChat(EndpointProfile(prefill="final_message", text_calls="hermes"))
    plain = ModelRequest(model="m", messages=[user("a")])
    assert (codec.can_continue(plain), calls.can_continue(plain)) == (True, False)


CALLS = (
    '<think>\nI look.\n</think>\n\nWait.\n<tool_call>\n{"name": "look", "arguments": {"at": "a}"}}\n'
    '</tool_call>\n<tool_call>\n{"name": "look", "arguments": {"at": "b"}}\n</tool_call>'
)
READ = ("I look.\n", "Wait.\n\n", [("look", '{"at": "a}"}'), ("look", '{"at": "b"}')])


def test_calls_in_the_text_are_calls_with_ids_of_their_places() -> None:
    reply = read(streamed(CALLS), HERMES).reply
    assert (reply.kind, contents(reply)) == (ReplyKind.COMPLETE, READ)
    ids = [call.id for call in reply.calls]
    assert ids == [call.id for call in read(whole({"content": CALLS}), HERMES, "").reply.calls]
    assert len(set(ids)) == 2
    assert all(one.startswith("call_") and len(one) < 40 for one in ids)
    other = read(streamed(CALLS).replace(b'"c1"', b'"c2"'), HERMES).reply
    assert {call.id for call in other.calls}.isdisjoint(ids)


def cuts(body: bytes) -> Iterator[bytes]:
    for at in range(len(body)):
        yield body[:at]


BODIES = {
    "thinking": (streamed("<think>Hm.</think>\nYes.", 4), THINK),
    "inside": (streamed("Hm.</think>\nYes.", 4), INSIDE),
    "calls": (streamed(CALLS, 60), HERMES),
    "whole": (whole({"content": CALLS}), HERMES),
    "cumulative": (
        stream(
            chunk({"tool_calls": [call("f", '{"a', id="c", index=0)]}),
            chunk({"tool_calls": [{"index": 0, "function": {"arguments": '{"a": 1'}}]}),
            chunk({"tool_calls": [{"index": 0, "function": {"arguments": '{"a": 1}'}}]}),
            chunk({}, "tool_calls"),
        ),
        REPEATING,
    ),
}


@pytest.mark.slow  # takes half a second or more
@pytest.mark.parametrize(("body", "profile"), BODIES.values(), ids=BODIES)
def test_a_body_is_whole_or_refused_wherever_it_is_cut(
    body: bytes, profile: EndpointProfile
) -> None:
    good = read(body, profile).reply
    assert good.kind is ReplyKind.COMPLETE
    accepted = 0
    for part in cuts(body):
        for ending in (b"", DONE if part.endswith(b"\n\n") else b""):
            assembled = read(part + ending, profile)
            if assembled.error is None:
                assert contents(assembled.reply) == contents(good)
                accepted += 1
    assert accepted < 60  # behind the finish reason


def test_every_piece_of_a_body_gives_the_same_reply() -> None:
    body = streamed(CALLS, 9)
    good = read(body, HERMES).reply
    for size in (1, 7, 100):
        decoder, assembler = (
            OpenAIChat(HERMES).make_decoder(STREAM),
            Assembler(HERMES, "openai_chat"),
        )
        for at in range(0, len(body), size):
            assembler.feed_all(decoder.feed(body[at : at + size]))
        assembler.feed_all(decoder.close())
        assert assembler.finish().reply == good


def test_a_tag_goes_on_behind_a_finish_reason_that_each_chunk_has() -> None:
    pieces = ("<thi", "nk>a</", "think>b")
    body = stream(*(chunk({"content": piece}, "stop") for piece in pieces))
    reply = read(body, THINK).reply
    assert (reply.kind, contents(reply)) == (ReplyKind.COMPLETE, ("a", "b", []))


def test_a_call_that_the_server_has_read_too_is_one_call() -> None:
    """mistral.rs sends a call in its field and leaves it in the text."""
    found = [row for row in rows("openai_chat") if row.id == "511fe6a1175ae2d2"]
    for row in found:
        reply = read(row.body, EndpointProfile(text_calls="hermes"), "application/json").reply
        assert contents(reply)[1:] == ("\n\n", [("report_usage", '{"reason":"cost_tracking"}')])
    assert found


def test_recorded_replies_with_tags() -> None:
    """Hugging Face, DeepSeek R1, cut at the output limit; llama.cpp, with a closing tag alone."""
    by_id = {row.id: row for row in rows("openai_chat")}
    cut = read(by_id["e1bf4a645595fdfa"].body, THINK, "application/json")
    assert isinstance(cut.error, TruncatedError)
    assert contents(cut.reply)[0].startswith("Okay, the user is asking")
    assert not cut.reply.text
    alone = read(by_id["88b05e7a5eff80f1"].body, THINK, "application/json").reply
    assert alone.text == "Hello! How can I assist you today? 😊</think>\n\n"
    assert [one.name for one in alone.calls] == ["ping"]


def test_cut_calls_never_run() -> None:
    for at in range(1, len(CALLS)):
        text = CALLS[:at]
        for finish, kinds in (
            ("stop", (*ACCEPTED, ReplyKind.ONLY_REASONING, ReplyKind.EMPTY)),
            ("length", (ReplyKind.TRUNCATED,)),
        ):
            reply = read(streamed(text, 50, finish), HERMES).reply
            assert reply.kind in kinds
            for one in reply.calls:
                if '"' in one.arguments and one.arguments.startswith("{"):
                    assert (one.name, one.arguments) in READ[2]
            if "<tool_call>" in text and not text.rstrip().endswith("</tool_call>"):
                is_open = text.count("<tool_call>") > text.count("</tool_call>")
                assert not is_open or finish == "length" or reply.kind is ReplyKind.MALFORMED_CALL


def test_arguments_with_a_replaced_character_do_not_run() -> None:
    text = '<tool_call>{"name": "look", "arguments": {"at": "caf\ufffd"}}</tool_call>'
    body = whole({"content": text})
    assert read(body, HERMES, "").reply.kind is ReplyKind.COMPLETE
    broken = body.replace(b"\\ufffd", b"\xff")
    assert read(broken, HERMES, "").reply.kind is ReplyKind.MALFORMED_CALL


def test_repeated_arguments_are_shown_once_if_the_profile_says_so() -> None:
    reader = HabitReader(REPEATING)
    pieces = ['{"a', '{"a": 1, "b', '{"a": 1, "b": 2}', '{"a": 1, "b": 2}']
    deltas: list[Delta] = [ToolCallDelta(0, "c", "f")]
    deltas += [ToolCallDelta(0, arguments=piece) for piece in pieces]
    seen = [delta for delta in reader.read_deltas(deltas) if isinstance(delta, ToolCallDelta)]
    assert [delta.arguments for delta in seen] == ["", '{"a', '": 1, "b', '": 2}']


@settings(max_examples=30)
@given(st.dictionaries(st.text(max_size=3), st.integers(), min_size=1, max_size=3), st.data())
def test_plain_arguments_are_not_changed(value: object, data: st.DataObject) -> None:
    text = json.dumps(value)
    at = sorted(data.draw(st.sets(st.integers(1, len(text) - 1), max_size=6)))
    bounds = [0, *at, len(text)]
    reader = ArgumentReader()
    pieces = [text[begin:end] for begin, end in pairwise(bounds)]
    read_pieces = [reader.read_delta(ToolCallDelta(0, arguments=piece)) for piece in pieces]
    assert "".join(delta.arguments for delta in read_pieces) == text


@settings(max_examples=30)
@given(st.text("<>/think[THIK] \nab`", max_size=40), st.integers(1, 9))
def test_any_text_reads_the_same_in_any_pieces(text: str, size: int) -> None:
    for profile in (THINK, INSIDE, HERMES):
        one, many = read(streamed(text, 99), profile), read(streamed(text, size), profile)
        assert one.reply == many.reply
        assert "".join(contents(one.reply)[:2]).count("x") == 0


def test_an_sdks_objects_are_read_by_the_same_reader() -> None:
    reader = ResponseReader(profile=HERMES)
    fold = ObjectFold(reader)
    for at in range(0, len(CALLS), 3):
        fold.read_chunk(chunk({"content": CALLS[at : at + 3]}))
    fold.read_chunk(chunk({}, "stop"))
    fold.close()
    assert (fold.finish().error, contents(fold.finish().reply)) == (None, READ)
    complete = ObjectFold(reader)
    complete.read_whole(json.loads(whole({"content": CALLS})))
    assert contents(complete.finish().reply) == READ


def test_an_unknown_form_is_named_with_the_nearest_one() -> None:
    with pytest.raises(ConfigurationError, match=r"thinking_tags: '<thinks>' is not .*<think>\?"):
        EndpointProfile(thinking_tags=("<thinks>",))  # type: ignore[arg-type]  # a mistake
    with pytest.raises(ConfigurationError, match=r"text_calls: 'qwen_coder' .*qwen3_coder\?"):
        EndpointProfile().change_fields({"text_calls": "qwen_coder"})
    with pytest.raises(ConfigurationError, match=r"Known are hermes, llama3_json"):
        EndpointProfile().change_fields({"text_calls": "???"})
    with pytest.raises(ConfigurationError, match="has no effect on the wire gemini"):
        EndpointProfile().change_fields({"thinking_tags": ["<think>"]}, "gemini")


def test_only_servers_of_open_models_have_tags_without_being_told() -> None:
    tagged = {name for name, preset in PRESETS.items() if preset.profile.thinking_tags}
    assert tagged >= {
        "bedrock-openai", "fireworks", "groq", "llamacpp", "lmstudio", "ollama", "ollama-cloud", "sglang", "vllm",
    }  # fmt: skip
    vendors = {
        "anthropic",
        "azure",
        "azure-v1",
        "deepseek",
        "gemini",
        "gemini-openai",
        "mistral",
        "openai",
    }
    assert tagged.isdisjoint(vendors | {"openai-responses", "openrouter", "vertex", "xai"})
    assert not [name for name, preset in PRESETS.items() if preset.profile.text_calls]
    assert not OpenAIChat(PRESETS["openai"].profile).profile.has_habits


@pytest.mark.slow  # takes half a second or more
@pytest.mark.parametrize("letter", ["<", "`", " ", "<think>", "<tool_call>{", "</think>"])
def test_hostile_texts_take_linear_time(letter: str) -> None:
    profile = EndpointProfile(text_calls="hermes", thinking_tags=("</think>",))

    def seconds(times: int) -> float:
        reader = HabitReader(profile)
        began = time.process_time()
        for _ in range(times):
            reader.read_deltas([TextDelta(letter)])
        reader.close()
        return time.process_time() - began

    assert is_linear(seconds, 500, 10_000)


def test_tools_that_are_known_give_values_their_types() -> None:
    schema = {"type": "object", "properties": {"days": {"type": "integer"}}}
    request = ModelRequest(
        model="m", messages=[user("a")], tools=(ToolSpec("book", "Book.", schema),)
    )
    text = (
        "<tool_call>\n<function=book>\n<parameter=days>\n3\n</parameter>\n</function>\n</tool_call>"
    )
    profile = EndpointProfile(text_calls="qwen3_coder")
    body = whole({"content": text})
    assert read(body, profile, "", request).reply.calls[0].arguments == '{"days": 3}'
    assert read(body, profile, "").reply.calls[0].arguments == '{"days": "3"}'


def test_an_error_in_the_stream_keeps_what_came_before() -> None:
    body = streamed("<think>Hm</think>Yes")[: -len(DONE)] + event({"error": {"message": "no"}})
    assembled = read(body, THINK)
    assert assembled.error is not None
    assert contents(assembled.reply)[:2] == ("Hm", "Yes")
