"""The one response handler: what is put together, what it is called, and what must not be accepted."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.codecs.openai_chat.bodies import assemble, call, chunk, event, read, stream, whole

from holdfast.codecs.assemble import Assembler
from holdfast.codecs.endpoint_profile import EndpointProfile
from holdfast.core.deltas import (
    Delta,
    EndMissing,
    ErrorReceived,
    NoChoices,
    NotAReply,
    PartReceived,
    ReasoningDelta,
    RefusalDelta,
    ReplyFinished,
    ReplyStarted,
    StreamEnded,
    TextDelta,
    ToolCallDelta,
    UsageReceived,
)
from holdfast.core.errors import (
    EmptyResponseError,
    ErrorCategory,
    ErrorInfo,
    FilteredError,
    HoldfastError,
    Landed,
    NoCandidatesError,
    NoTextError,
    NoToolActivityError,
    RefusedError,
    TruncatedError,
    UnterminatedError,
    exception_for,
)
from holdfast.core.messages import (
    FinishReason,
    Media,
    Opaque,
    Reasoning,
    ReplyKind,
    Text,
    ToolCall,
    Usage,
)

STOP = ReplyFinished(FinishReason.STOP, "stop")
LENGTH = ReplyFinished(FinishReason.LENGTH, "length")
CALLS = ReplyFinished(FinishReason.TOOL_CALLS, "tool_calls")
FILTERED = ReplyFinished(FinishReason.CONTENT_FILTER, "content_filter")
ERROR = ErrorReceived(ErrorInfo(category=ErrorCategory.SERVER_ERROR, safe="down"))
CALL = ToolCallDelta(0, "a", "f", "{}")
NO_ARGUMENTS = ToolCallDelta(0, "a", "f")
CUT_CALL = ToolCallDelta(0, "a", "pay", '{"amount": 5, "to": "bo')


class TestParts:
    def test_the_order_is_the_model_s(self) -> None:
        deltas: list[Delta] = [
            ReasoningDelta("H"),
            ReasoningDelta("m"),
            TextDelta("on"),
            TextDelta("e"),
            CALL,
            TextDelta("two"),
            STOP,
        ]
        parts = assemble(deltas).reply.parts
        assert parts == (Reasoning("Hm"), Text("one"), ToolCall("a", "f", "{}"), Text("two"))

    def test_blocks_of_two_indices_may_alternate(self) -> None:
        deltas = [TextDelta("a", 0), TextDelta("x", 1), TextDelta("b", 0), TextDelta("y", 1), STOP]
        assert assemble(deltas).reply.parts == (Text("ab"), Text("xy"))

    def test_a_call_grows_after_other_parts_began(self) -> None:
        deltas = [ToolCallDelta(0, "a", "f", "{"), TextDelta("t"), ToolCallDelta(0, arguments="}")]
        assert assemble([*deltas, STOP]).reply.parts == (ToolCall("a", "f", "{}"), Text("t"))

    def test_signatures_and_state_name_their_wire(self) -> None:
        deltas: list[Delta] = [
            ReasoningDelta("Hm"),
            ReasoningDelta(signature="s"),
            ReasoningDelta(extra={"id": 1}),
            TextDelta("x"),
            ToolCallDelta(0, "a", "f", "{}", {"k": "v"}),
            CALLS,
        ]
        thought, _, made = assemble(deltas).reply.parts
        assert thought == Reasoning("Hm", "s", "openai_chat", {"id": 1})
        assert made == ToolCall("a", "f", "{}", "openai_chat", {"k": "v"})

    def test_media_come_whole_and_divide_text(self) -> None:
        picture = Media("image/png", data=b"x")
        parts = assemble([TextDelta("a"), PartReceived(picture), TextDelta("b"), STOP]).reply.parts
        assert parts == (Text("a"), picture, Text("b"))

    def test_empty_deltas_make_no_parts(self) -> None:
        deltas = [TextDelta(""), ReasoningDelta(), RefusalDelta(""), TextDelta("a"), STOP]
        assert assemble(deltas).reply.parts == (Text("a"),)

    def test_id_model_usage_and_reason_are_stored(self) -> None:
        deltas = [ReplyStarted("c", ""), ReplyStarted("d", "m"), TextDelta("a"), STOP]
        reply = assemble([*deltas, UsageReceived(Usage(1)), UsageReceived(Usage(2, 3))]).reply
        assert (reply.id, reply.model, reply.usage) == ("c", "m", Usage(2, 3))
        assert (reply.finish, reply.raw_finish) == (FinishReason.STOP, "stop")


KINDS: list[tuple[str, list[Delta], ReplyKind, type[HoldfastError] | None]] = [
    ("text", [TextDelta("a"), STOP], ReplyKind.COMPLETE, None),
    ("calls", [CALL, CALLS], ReplyKind.COMPLETE, None),
    ("calls and stop", [CALL, STOP], ReplyKind.COMPLETE, None),
    (
        "only the end marker",
        [TextDelta("a"), StreamEnded()],
        ReplyKind.UNTERMINATED,
        UnterminatedError,
    ),
    ("only the end marker, no content", [StreamEnded()], ReplyKind.EMPTY, NoTextError),
    ("media", [PartReceived(Media("image/png", data=b"x")), STOP], ReplyKind.COMPLETE, None),
    ("pause", [ReplyFinished(FinishReason.PAUSE, "pause_turn")], ReplyKind.PAUSED, None),
    ("malformed", [ToolCallDelta(0, "a", "f", "{x"), CALLS], ReplyKind.MALFORMED_CALL, None),
    ("a list", [ToolCallDelta(0, "a", "f", "[1]"), CALLS], ReplyKind.MALFORMED_CALL, None),
    ("null", [ToolCallDelta(0, "a", "f", "null"), CALLS], ReplyKind.MALFORMED_CALL, None),
    ("text, cut", [TextDelta("a"), LENGTH], ReplyKind.TRUNCATED, TruncatedError),
    ("nothing, cut", [LENGTH], ReplyKind.TRUNCATED, TruncatedError),
    ("thoughts, cut", [ReasoningDelta("a"), LENGTH], ReplyKind.TRUNCATED, TruncatedError),
    ("calls, cut", [CUT_CALL, LENGTH], ReplyKind.TRUNCATED, None),
    ("whole calls, cut", [CALL, LENGTH], ReplyKind.TRUNCATED, None),
    ("filtered", [FILTERED], ReplyKind.FILTERED, FilteredError),
    ("filtered after text", [TextDelta("a"), FILTERED], ReplyKind.FILTERED, FilteredError),
    ("refused", [RefusalDelta("no"), STOP], ReplyKind.REFUSED, RefusedError),
    ("refused by word", [ReplyFinished(FinishReason.REFUSAL)], ReplyKind.REFUSED, RefusedError),
    ("refused with calls", [CALL, RefusalDelta("no"), CALLS], ReplyKind.REFUSED, RefusedError),
    ("no candidates", [NoChoices(), StreamEnded()], ReplyKind.EMPTY, NoCandidatesError),
    ("nothing", [STOP], ReplyKind.EMPTY, NoTextError),
    ("blanks", [TextDelta(" \n"), STOP], ReplyKind.EMPTY, NoTextError),
    ("notes on no text", [PartReceived(Opaque("w", {})), STOP], ReplyKind.EMPTY, NoTextError),
    ("calls that never came", [CALLS], ReplyKind.EMPTY, NoToolActivityError),
    ("thoughts", [ReasoningDelta("a"), STOP], ReplyKind.ONLY_REASONING, EmptyResponseError),
    ("nothing at all", [], ReplyKind.UNTERMINATED, UnterminatedError),
    ("text that stopped", [TextDelta("a")], ReplyKind.UNTERMINATED, UnterminatedError),
    ("a call that stopped", [CUT_CALL], ReplyKind.UNTERMINATED, UnterminatedError),
    ("a whole call that stopped", [CALL], ReplyKind.UNTERMINATED, UnterminatedError),
    ("an error", [TextDelta("a"), ERROR], ReplyKind.ERROR_REPLY, HoldfastError),
    ("an error and its end", [ERROR, STOP, StreamEnded()], ReplyKind.ERROR_REPLY, HoldfastError),
    ("finish error", [TextDelta("a"), ReplyFinished(FinishReason.ERROR)], ReplyKind.ERROR_REPLY, HoldfastError),
    ("an error and rubbish", [NotAReply("x", "y"), ERROR], ReplyKind.ERROR_REPLY, HoldfastError),
    ("rubbish", [TextDelta("a"), NotAReply("x", "y"), STOP], ReplyKind.NOT_A_REPLY, HoldfastError),
    ("filtered, unterminated call", [CUT_CALL, FILTERED], ReplyKind.FILTERED, FilteredError),
]  # fmt: skip


@pytest.mark.parametrize(
    ("deltas", "kind", "error"), [k[1:] for k in KINDS], ids=[k[0] for k in KINDS]
)
def test_every_kind(
    deltas: list[Delta], kind: ReplyKind, error: type[HoldfastError] | None
) -> None:
    assembled = assemble(deltas)
    assert assembled.reply.kind is kind
    if error is None:
        assert assembled.error is None
        return
    assert isinstance(assembled.error, error)
    assert assembled.error.partial == assembled.reply
    # A resumed run raises what a fresh one raised.
    again = exception_for(assembled.error.info)
    assert again.info.category is assembled.error.info.category
    assert isinstance(assembled.error, type(again))


@pytest.mark.parametrize(
    ("deltas", "category", "code"),
    [
        ([TextDelta("a"), LENGTH], ErrorCategory.TRUNCATED, "truncated"),
        ([FILTERED], ErrorCategory.CONTENT_FILTERED, "filtered"),
        ([RefusalDelta("no"), STOP], ErrorCategory.CONTENT_FILTERED, "refused"),
        ([TextDelta("a")], ErrorCategory.TRANSIENT, "unterminated"),
        ([STOP], ErrorCategory.EMPTY_RESPONSE, "no_text"),
        ([CALLS], ErrorCategory.EMPTY_RESPONSE, "no_tool_activity"),
        ([ReasoningDelta("a"), STOP], ErrorCategory.EMPTY_RESPONSE, "only_reasoning"),
        ([NoChoices(), StreamEnded()], ErrorCategory.EMPTY_RESPONSE, "no_candidates"),
        ([NotAReply("x", "y")], ErrorCategory.INVALID_RESPONSE, "not_a_reply"),
        ([ReplyFinished(FinishReason.ERROR, "error")], ErrorCategory.SERVER_ERROR, "error_finish"),
        ([ERROR], ErrorCategory.SERVER_ERROR, None),
    ],
)
def test_what_is_known_about_each_failure(
    deltas: list[Delta], category: ErrorCategory, code: str | None
) -> None:
    error = assemble(deltas).error
    assert error is not None
    assert (error.info.category, error.info.code) == (category, code)
    assert error.info.landed is Landed.UNKNOWN


def test_the_texts_of_the_response_handler() -> None:
    assert (
        str(assemble([NoChoices(), StreamEnded()]).error)
        == "Empty response: no candidates in response"
    )
    assert str(assemble([STOP]).error) == "Empty response: no text in response"


class TestProof:
    """What proves that a reply is whole is a field of the profile."""

    def test_a_stream_without_marker(self) -> None:
        deltas = [TextDelta("a"), STOP]
        assert assemble(deltas).error is None
        strict = EndpointProfile(ends_without_marker=False)
        assert assemble(deltas, strict).reply.kind is ReplyKind.UNTERMINATED
        assert assemble([*deltas, StreamEnded()], strict).error is None

    @pytest.mark.parametrize(
        "content",
        [
            TextDelta("a"),
            ReasoningDelta("a"),
            CALL,
            NO_ARGUMENTS,
            PartReceived(Media("image/png", data=b"x")),
            PartReceived(Opaque("w", {"type": "search"})),
        ],
    )
    def test_content_behind_the_finish_reason_makes_it_void(self, content: Delta) -> None:
        for loose in (EndpointProfile(), EndpointProfile(ends_without_finish=True)):
            for begun in ([TextDelta("a"), STOP], [CALL, CALLS]):
                assert assemble(begun, loose).error is None
                error = assemble([*begun, content], loose).error
                assert isinstance(error, UnterminatedError)
                assert error.info.category.is_retryable
                assert assemble([*begun, content, STOP], loose).error is None

    @pytest.mark.parametrize(
        "silent",
        [
            TextDelta(""),
            ReasoningDelta(signature="s"),
            ToolCallDelta(0),
            RefusalDelta(""),
            UsageReceived(Usage(1, 2)),
            ReplyStarted("c", "m"),
            PartReceived(Opaque("w", {"citations": []}), note=True),
        ],
    )
    def test_deltas_without_content_leave_it_valid(self, silent: Delta) -> None:
        assembler = Assembler(EndpointProfile())
        for delta in (TextDelta("a"), CALL, CALLS, silent):
            assembler.feed(delta)
        assert assembler.is_complete
        assert assembler.finish().error is None

    def test_text_of_an_odd_index_is_not_lost(self) -> None:
        assert assemble([TextDelta("a", -1), STOP]).reply.text == "a"

    def test_a_body_that_ends_inside_an_event(self) -> None:
        for loose in (EndpointProfile(), EndpointProfile(ends_without_finish=True)):
            for deltas in ([TextDelta("a")], [CALL, CALLS], [CALL]):
                reply = assemble([*deltas, EndMissing(inside_event=True)], loose).reply
                assert reply.kind is ReplyKind.UNTERMINATED

    def test_arguments_that_are_not_whole_are_not_proved_where_the_end_marker_is_missing(
        self,
    ) -> None:
        assert assemble([CALL, CALLS, EndMissing()]).error is None
        for begun in (NO_ARGUMENTS, CUT_CALL):
            assert isinstance(assemble([begun, CALLS, EndMissing()]).error, UnterminatedError)
            assert assemble([begun, LENGTH, EndMissing()]).reply.kind is ReplyKind.TRUNCATED

    def test_a_stream_without_finish_reason(self) -> None:
        loose = EndpointProfile(ends_without_finish=True)
        assert assemble([TextDelta("a")], loose).error is None
        assert assemble([CALL], loose).error is None
        assert assemble([], loose).reply.kind is ReplyKind.UNTERMINATED
        assert assemble([ReasoningDelta("a")], loose).reply.kind is ReplyKind.UNTERMINATED
        assert assemble([TextDelta("a"), StreamEnded()], loose).error is None
        only_thoughts = assemble([ReasoningDelta("a"), StreamEnded()], loose).reply
        assert only_thoughts.kind is ReplyKind.ONLY_REASONING

    def test_a_cut_call_is_not_accepted_even_then(self) -> None:
        loose = EndpointProfile(ends_without_finish=True)
        assert assemble([CUT_CALL], loose).reply.kind is ReplyKind.UNTERMINATED
        empty = ToolCallDelta(0, "a", "wipe", "")
        assert assemble([empty], loose).reply.kind is ReplyKind.UNTERMINATED
        assert assemble([TextDelta("a"), CUT_CALL], loose).reply.kind is ReplyKind.UNTERMINATED


class TestArguments:
    def test_none_at_all_are_an_empty_object_when_the_call_is_whole(self) -> None:
        for proof in (CALLS, StreamEnded(whole=True)):
            assert assemble([NO_ARGUMENTS, proof]).reply.calls[0].arguments == "{}"

    @pytest.mark.parametrize("begun", [NO_ARGUMENTS, CUT_CALL])
    def test_an_end_marker_alone_proves_none(self, begun: Delta) -> None:
        # Further calls may have been lost.
        assert assemble([CALL, StreamEnded()]).reply.kind is ReplyKind.UNTERMINATED
        loose = EndpointProfile(ends_without_finish=True)
        assert assemble([CALL, StreamEnded()], loose).error is None
        assert assemble([begun, StreamEnded()], loose).reply.kind is ReplyKind.UNTERMINATED
        assert assemble([begun, StreamEnded()]).reply.kind is ReplyKind.UNTERMINATED
        assert assemble([CALLS, begun, StreamEnded()]).reply.kind is ReplyKind.UNTERMINATED
        assert assemble([begun, CALLS, StreamEnded()]).error is None

    def test_none_at_all_stay_nothing_when_it_was_cut(self) -> None:
        for deltas in ([ToolCallDelta(0, "a", "f"), LENGTH], [ToolCallDelta(0, "a", "f")]):
            reply = assemble(deltas).reply
            assert reply.calls[0].arguments == ""
            assert reply.kind in (ReplyKind.TRUNCATED, ReplyKind.UNTERMINATED)

    def test_the_text_is_never_repaired(self) -> None:
        reply = assemble([ToolCallDelta(0, "a", "f", '{"a": 1,}'), CALLS]).reply
        assert reply.calls[0].arguments == '{"a": 1,}'
        assert reply.kind is ReplyKind.MALFORMED_CALL


def test_visible_parts_are_those_that_a_user_may_have_seen() -> None:
    def visible(*deltas: Delta) -> bool:
        assembler = Assembler(EndpointProfile())
        for delta in deltas:
            assembler.feed(delta)
        return assembler.has_visible_parts

    assert not visible(ReplyStarted("c", "m"), TextDelta(""), UsageReceived(Usage(1)), STOP, ERROR)
    assert not visible(ReasoningDelta(signature="s"), PartReceived(Opaque("w", {})))
    for delta in (TextDelta("a"), ReasoningDelta("a"), CALL, RefusalDelta("a")):
        assert visible(delta)


def test_it_may_be_finished_at_any_time_and_again() -> None:
    assembler = Assembler(EndpointProfile())
    assembler.feed(TextDelta("a"))
    assert assembler.finish().reply.kind is ReplyKind.UNTERMINATED
    assembler.feed(TextDelta("b"))
    assembler.feed(STOP)
    assert assembler.finish().reply == assembler.finish().reply
    assert assembler.finish().reply.text == "ab"


DELTAS = st.one_of(
    st.builds(TextDelta, st.text(max_size=3), st.integers(0, 2)),
    st.builds(ReasoningDelta, st.text(max_size=3), st.integers(0, 2)),
    st.builds(
        ToolCallDelta, st.integers(0, 2), st.just("a"), st.just("f"), st.text("{}", max_size=3)
    ),
    st.builds(RefusalDelta, st.text(max_size=2)),
    st.builds(ReplyFinished, st.sampled_from(FinishReason)),
    st.builds(PartReceived, st.just(Text("p"))),
    st.sampled_from([StreamEnded(), NoChoices(), ERROR, NotAReply("x", "y")]),
)
PROFILE = st.builds(
    EndpointProfile, ends_without_finish=st.booleans(), ends_without_marker=st.booleans()
)


@given(st.lists(DELTAS, max_size=12), PROFILE)
def test_no_text_is_lost_and_no_reply_is_accepted_without_proof(
    deltas: list[Delta], profile: EndpointProfile
) -> None:
    assembled = assemble(deltas, profile)
    reply = assembled.reply
    said = [delta.text for delta in deltas if isinstance(delta, TextDelta)]
    kept = "".join(
        part.text for part in reply.parts if isinstance(part, Text) and part != Text("p")
    )
    assert sorted(kept.replace("p", "")) == sorted("".join(said).replace("p", ""))
    if reply.kind is ReplyKind.COMPLETE:
        proven = any(isinstance(delta, ReplyFinished) for delta in deltas)
        assert proven or profile.ends_without_finish
        for made in reply.calls:
            assert isinstance(json.loads(made.arguments), dict)
    if assembled.error is None:
        assert reply.kind in (
            ReplyKind.COMPLETE,
            ReplyKind.PAUSED,
            ReplyKind.MALFORMED_CALL,
            ReplyKind.TRUNCATED,
        )
        assert reply.kind is not ReplyKind.TRUNCATED or reply.calls


class TestDefectsOfOthers:
    """Behaviours that were found in other frameworks."""

    ARGUMENTS = '{"amount": 5, "to": "bob", "path": "/tmp/safe"}'

    @staticmethod
    def _cut(arguments: str, finish: Any, name: str = "pay") -> list[bytes]:
        """The same cut call, streamed and whole."""
        entry = call(name, arguments, id="a")
        first = chunk({"tool_calls": [{**entry, "index": 0}]})
        streamed = stream(first, chunk({}, finish)) if finish else event(first)
        return [streamed] + ([whole({"tool_calls": [entry]}, finish)] if finish else [])

    @pytest.mark.parametrize("finish", ["length", None])
    def test_truncated_call_is_never_marked_runnable(self, finish: Any) -> None:
        """D1, D4: cut arguments were repaired and executed."""
        for cut in range(len(self.ARGUMENTS) + 1):
            for body in self._cut(self.ARGUMENTS[:cut], finish):
                reply = read(body).reply
                assert reply.kind in (ReplyKind.TRUNCATED, ReplyKind.UNTERMINATED)
                assert reply.calls[0].arguments == self.ARGUMENTS[:cut]

    @pytest.mark.parametrize("finish", ["tool_calls", "stop", "something_new"])
    def test_cut_arguments_are_malformed_whatever_the_finish_reason_says(self, finish: str) -> None:
        """D1 to D3: a gateway may hide that the reply was cut."""
        for cut in range(1, len(self.ARGUMENTS)):
            for body in self._cut(self.ARGUMENTS[:cut], finish):
                reply = read(body).reply
                assert reply.kind is ReplyKind.MALFORMED_CALL
                assert reply.calls[0].arguments == self.ARGUMENTS[:cut]

    def test_malformed_arguments_never_become_an_empty_object_or_another_one(self) -> None:
        """D2, D3: `{}` and `{"raw": ...}` ran a tool with its defaults."""
        for arguments in ("{", "not json", "[]", '"x"', "{} {}", "{'a': 1}", '{"a": 1'):
            for body in self._cut(arguments, "tool_calls", name="wipe"):
                reply = read(body).reply
                assert reply.kind is ReplyKind.MALFORMED_CALL
                assert reply.calls[0].arguments == arguments

    def test_a_malformed_call_is_not_an_empty_answer(self) -> None:
        """D5: not streamed, it ended the run with '' and no error."""
        assembled = read(whole({"content": None, "tool_calls": [call("f", "{x", id="a")]}))
        assert assembled.reply.calls
        assert assembled.reply.kind is ReplyKind.MALFORMED_CALL

    def test_an_unterminated_stream_keeps_its_text_and_is_not_a_success(self) -> None:
        """D7: the user saw text, and the result was '' with a normal end."""
        assembled = read(
            stream(chunk({"content": "alpha "}), chunk({"content": "beta"}), done=False)
        )
        assert isinstance(assembled.error, UnterminatedError)
        assert assembled.error.partial is not None
        assert assembled.error.partial.text == "alpha beta"

    def test_no_choices_does_not_raise_an_index_error(self) -> None:
        """D15."""
        assert isinstance(read(b'{"choices": []}').error, NoCandidatesError)

    def test_filter_and_length_after_text_are_not_a_success(self) -> None:
        for finish, kind in (("content_filter", FilteredError), ("length", TruncatedError)):
            for body in (whole({"content": "a"}, finish), stream(chunk({"content": "a"}, finish))):
                assert isinstance(read(body).error, kind)


def test_a_reply_of_opaque_items_is_an_error_that_names_the_item() -> None:
    assembler = Assembler(EndpointProfile())
    item = Opaque("openai_responses", {"type": "shell_call", "action": {}})
    for delta in (PartReceived(item), ReplyFinished(FinishReason.STOP), StreamEnded()):
        assembler.feed(delta)
    error = assembler.finish().error
    assert isinstance(error, NoTextError)
    assert "shell_call" in str(error)
    assert not error.info.category.is_retryable
    assert error.partial is not None
    assert error.partial.parts == (item,)
