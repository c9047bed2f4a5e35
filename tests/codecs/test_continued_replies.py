"""Continued replies: wherever the first text breaks off, nothing is lost or repeated."""

from __future__ import annotations

import json
import re
from itertools import pairwise
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.codecs.anthropic.codec import AnthropicCodec
from holdfast.codecs.assemble import Assembler
from holdfast.codecs.endpoint_profile import EndpointProfile
from holdfast.codecs.gemini.codec import Gemini
from holdfast.codecs.openai_chat.codec import OpenAIChat
from holdfast.codecs.openai_responses.codec import ResponsesCodec
from holdfast.codecs.stitching import (
    StitchingDecoder,
    allows_continuation,
    can_continue_reply,
    prefill_request,
)
from holdfast.codecs.wire import Codec
from holdfast.core.deltas import (
    Delta,
    NoChoices,
    NotAReply,
    ReasoningDelta,
    ReplyFinished,
    ReplyStarted,
    StreamEnded,
    TextDelta,
    UsageReceived,
)
from holdfast.core.errors import ConfigurationError, ErrorCategory
from holdfast.core.messages import (
    FinishReason,
    Reasoning,
    Reply,
    ReplyKind,
    Text,
    ToolCall,
    Usage,
    assistant,
    user,
)
from holdfast.core.model_request import ModelRequest, ModelSettings, OutputSchema, ToolSpec
from holdfast.core.transcript import Transcript
from holdfast.models.presets import PRESETS

QUESTION = ModelRequest(model="claude-sonnet-4-5", messages=[user("Tell me.")])
TEXTS = st.text(alphabet="ab \n\t.é", max_size=40)


class Script:
    """A decoder that says what it was given, one list of deltas for each piece of the body."""

    def __init__(self, *pieces: list[Delta]) -> None:
        self._pieces = list(pieces)

    def feed(self, data: bytes) -> list[Delta]:
        return self._pieces.pop(0)

    def close(self) -> list[Delta]:
        return []


def rest_of(text: str, cuts: list[int]) -> list[list[Delta]]:
    """The text as deltas, cut at these places."""
    places = sorted({0, len(text), *(cut % (len(text) + 1) for cut in cuts)})
    pieces = [text[a:b] for a, b in pairwise(places)]
    return [[TextDelta(piece)] for piece in pieces] or [[]]


def joined(kept: str, pieces: list[list[Delta]], *, echoes: bool) -> str:
    seam = StitchingDecoder(Script(*pieces), kept, echoes=echoes)
    deltas = [delta for _ in pieces for delta in seam.feed(b"")] + seam.close()
    return kept + "".join(delta.text for delta in deltas if isinstance(delta, TextDelta))


@given(TEXTS, st.integers(0, 40), st.lists(st.integers(0, 40), max_size=6), st.booleans())
def test_no_text_is_lost_or_doubled_wherever_it_broke(
    text: str, at: int, cuts: list[int], echoes: bool
) -> None:
    kept = text[:at]
    sent = kept.rstrip()
    rest = text if echoes else text[len(sent) :]
    assert joined(kept, rest_of(rest, cuts), echoes=echoes) == text


@given(TEXTS, st.lists(st.integers(0, 40), max_size=3), st.lists(st.integers(0, 40), max_size=4))
def test_a_text_that_breaks_again_and_again_is_whole_in_the_end(
    text: str, breaks: list[int], cuts: list[int]
) -> None:
    kept = ""
    for stop in sorted(min(one, len(text)) for one in breaks):
        kept = joined(
            kept, rest_of(text[len(kept.rstrip()) : max(stop, len(kept))], cuts), echoes=False
        )
        assert text.startswith(kept)
    assert joined(kept, rest_of(text[len(kept.rstrip()) :], cuts), echoes=False) == text


def test_a_provider_that_should_echo_and_does_not_loses_nothing() -> None:
    pieces: list[list[Delta]] = [[TextDelta("O")], [TextDelta("h yes")]]
    assert joined("Once ", pieces, echoes=True) == "Once Oh yes"


def test_text_that_only_began_like_an_echo_is_emitted_before_the_end() -> None:
    seam = StitchingDecoder(
        Script([TextDelta("On"), ReplyFinished(FinishReason.STOP), StreamEnded()]),
        "Once",
        echoes=True,
    )
    assert seam.feed(b"")[0] == TextDelta("On")
    assert seam.close() == []


def test_an_echo_is_awaited_through_what_says_nothing() -> None:
    first: list[Delta] = [ReplyStarted("id"), TextDelta("On"), UsageReceived(Usage(1, 1))]
    assert joined("Once", [first, [TextDelta("ce upon")]], echoes=True) == "Once upon"


BROKEN = Reply(
    (Text("Once "),),
    kind=ReplyKind.UNTERMINATED,
    finish=FinishReason.UNKNOWN,
    usage=Usage(7, 2),
)


def test_the_reply_of_two_attempts_has_both_texts_and_the_tokens_of_both() -> None:
    assembler = Assembler(EndpointProfile(), "anthropic", BROKEN)
    assert not assembler.has_visible_parts
    for delta in (
        TextDelta("upon"),
        UsageReceived(Usage(9, 3)),
        ReplyFinished(FinishReason.STOP),
        StreamEnded(),
    ):
        assembler.feed(delta)
    reply = assembler.finish().reply
    assert (reply.parts, reply.kind) == ((Text("Once upon"),), ReplyKind.COMPLETE)
    assert (reply.usage, reply.continued) == (Usage(16, 5), 1)


def test_only_the_second_half_proves_that_the_reply_is_whole() -> None:
    assembler = Assembler(EndpointProfile(), "anthropic", BROKEN)
    assembler.feed(TextDelta("upon"))
    broken = assembler.finish()
    assert (broken.reply.kind, broken.reply.text) == (ReplyKind.UNTERMINATED, "Once upon")
    assert broken.error is not None


@pytest.mark.parametrize(
    "said",
    [
        [ReplyFinished(FinishReason.STOP), StreamEnded()],
        [TextDelta(" "), ReplyFinished(FinishReason.STOP), StreamEnded()],
        [ReasoningDelta("Hm."), ReplyFinished(FinishReason.STOP), StreamEnded()],
        [NoChoices(), StreamEnded()],
        [NotAReply("response object", "HTML")],
    ],
    ids=["nothing", "a blank", "only thoughts", "no candidate", "a page"],
)
def test_a_second_half_without_text_proves_nothing(said: list[Delta]) -> None:
    # It may be the end of a complete text or an empty reply: the two look the same.
    assembler = Assembler(EndpointProfile(), "anthropic", BROKEN)
    for delta in said:
        assembler.feed(delta)
    assembled = assembler.finish()
    assert assembled.error is not None
    assert assembled.reply.text.startswith("Once ")
    assert not can_continue_reply(assembled.reply, assembled.error.info.category)


def test_an_attempt_that_brought_nothing_does_not_count_as_a_continuation() -> None:
    assembler = Assembler(EndpointProfile(), "anthropic", BROKEN)
    assert assembler.finish().reply == BROKEN


@pytest.mark.parametrize(
    ("parts", "kind"),
    [
        ((Text("a"), ToolCall("1", "pay", "{")), ReplyKind.UNTERMINATED),
        ((Reasoning("hm", "signed"), Text("a")), ReplyKind.UNTERMINATED),
        ((Text("a", {"citations": []}),), ReplyKind.UNTERMINATED),
        ((Text("  \n"),), ReplyKind.UNTERMINATED),
        ((), ReplyKind.UNTERMINATED),
        ((Text("a"),), ReplyKind.COMPLETE),
        ((Text("a"),), ReplyKind.NOT_A_REPLY),
    ],
)
def test_what_is_not_plain_broken_text_is_asked_for_again(
    parts: tuple[Text | ToolCall | Reasoning, ...], kind: ReplyKind
) -> None:
    assert not can_continue_reply(Reply(parts, kind=kind), ErrorCategory.TRANSIENT)


@pytest.mark.parametrize("category", ErrorCategory)
def test_only_what_passes_by_itself_is_continued(category: ErrorCategory) -> None:
    wanted = category in {
        ErrorCategory.TRANSIENT,
        ErrorCategory.TIMEOUT,
        ErrorCategory.SERVER_ERROR,
        ErrorCategory.RATE_LIMIT_RETRYABLE,
    }
    assert can_continue_reply(BROKEN, category) is wanted


SHAPE = OutputSchema("trip", {"type": "object"})
PAY = ToolSpec("pay", "", {"type": "object"})


@pytest.mark.parametrize(
    "change",
    [
        {"output": SHAPE},
        {"settings": ModelSettings(reasoning_effort="low")},
        {"settings": ModelSettings(reasoning_tokens=2000)},
        {"tools": (PAY,), "settings": ModelSettings(tool_choice="required")},
        {"tools": (PAY,), "settings": ModelSettings(tool_choice="pay")},
        {"messages": [user("Hi"), assistant("Hel")]},
    ],
)
def test_a_question_that_wants_more_than_text_is_asked_again(change: dict[str, object]) -> None:
    assert allows_continuation(QUESTION)
    request = msgspec.structs.replace(QUESTION, **change)
    assert not allows_continuation(request)
    assert not AnthropicCodec(PRESETS["anthropic"].profile).can_continue(request)


@pytest.mark.parametrize(
    ("preset", "model", "continues"),
    [
        ("anthropic", "claude-sonnet-4-5", True),
        ("anthropic", "claude-3-5-haiku-20241022", True),
        ("anthropic", "claude-opus-4-6", False),
        ("anthropic", "claude-sonnet-5", False),
        ("anthropic", "somebody-elses-model", False),
        ("bedrock-anthropic", "us.anthropic.claude-sonnet-4-5-20250929-v1:0", True),
        ("mistral", "mistral-large-latest", True),
        ("deepseek", "deepseek-chat", False),
        ("deepseek-beta", "deepseek-chat", True),
        ("vllm", "any", True),
        ("openai", "gpt-5.2", False),
        ("openai-responses", "gpt-5.2", False),
        ("gemini", "gemini-2.5-flash", False),
        ("ollama", "qwen3", False),
    ],
)
def test_which_provider_continues_is_a_row(preset: str, model: str, continues: bool) -> None:
    request = msgspec.structs.replace(QUESTION, model=model)
    assert codec_of(preset).can_continue(request) is continues


def test_thinking_that_is_asked_for_by_hand_is_seen() -> None:
    by_hand = ModelSettings(extra={"thinking": {"type": "enabled", "budget_tokens": 2000}})
    request = msgspec.structs.replace(QUESTION, settings=by_hand)
    assert not AnthropicCodec(PRESETS["anthropic"].profile).can_continue(request)


@pytest.mark.parametrize(
    ("preset", "last", "more"),
    [
        ("anthropic", {"role": "assistant", "content": "Once"}, {}),
        ("mistral", {"role": "assistant", "content": "Once", "prefix": True}, {}),
        ("deepseek-beta", {"role": "assistant", "content": "Once", "prefix": True}, {}),
        (
            "vllm",
            {"role": "assistant", "content": "Once"},
            {"continue_final_message": True, "add_generation_prompt": False},
        ),
    ],
)
@pytest.mark.parametrize("cache", [False, True])
def test_the_beginning_is_the_last_message_and_stays_out_of_the_history(
    preset: str, last: dict[str, object], more: dict[str, object], cache: bool
) -> None:
    codec = codec_of(preset)
    history = Transcript([user("Tell me.")])
    settings = ModelSettings(cache=cache)
    request = msgspec.structs.replace(QUESTION, messages=history, settings=settings)
    plain = codec.encode(request).body
    body = json.loads(codec.encode(prefill_request(request, BROKEN)).body)
    assert body["messages"][-1] == last
    assert {name: body[name] for name in more} == more
    assert len(body["messages"]) == 2
    assert codec.encode(request).body == plain


@pytest.mark.parametrize("preset", ["openai", "openai-responses", "gemini", "deepseek"])
def test_a_wire_that_cannot_continue_refuses_a_beginning(preset: str) -> None:
    with pytest.raises(ConfigurationError, match=r"prefill: .* does not continue a reply"):
        codec_of(preset).encode(prefill_request(QUESTION, BROKEN))


def codec_of(preset: str) -> Codec:
    row = PRESETS[preset]
    codecs: dict[str, type[AnthropicCodec | Gemini | OpenAIChat | ResponsesCodec]] = {
        "anthropic": AnthropicCodec,
        "gemini": Gemini,
        "openai_chat": OpenAIChat,
        "openai_responses": ResponsesCodec,
    }
    return codecs[row.wire](row.profile)


def test_the_reference_names_who_can() -> None:
    page = Path(__file__).parents[2] / "docs" / "reference" / "providers.md"
    said = page.read_text("utf-8").split("continue_streams=True")[1].split("The others")[0]
    told = set(re.findall(r"`([a-z-]+)`", said))
    assert told == {name for name, row in PRESETS.items() if row.profile.prefill}
