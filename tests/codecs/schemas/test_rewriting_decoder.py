"""The decoder that rewrites: calls by their tool, texts as the output, everything else as it is."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from holdfast.codecs.assemble import Assembler
from holdfast.codecs.endpoint_profile import EndpointProfile
from holdfast.codecs.schemas.rewriting import RewriteNode, RewritingDecoder, Rewritings
from holdfast.core.deltas import (
    Delta,
    EndMissing,
    ReasoningDelta,
    ReplyFinished,
    StreamEnded,
    TextDelta,
    ToolCallDelta,
)
from holdfast.core.messages import FinishReason, Reply, ReplyKind

NODE = RewriteNode(names={"top": "$top"}, optional={"skip"})
SENT, MEANT = '{"top": 5, "skip": null, "q": "a"}', '{"$top": 5, "q": "a"}'
FINISH = ReplyFinished(FinishReason.STOP)


class Deltas:
    """A decoder whose bytes are numbers of deltas; the rest comes at the end."""

    def __init__(self, deltas: list[Delta], last: int = 0) -> None:
        self.deltas, self.last = deltas, last

    def feed(self, data: bytes) -> list[Delta]:
        return [self.deltas.pop(0) for _ in data if len(self.deltas) > self.last]

    def close(self) -> list[Delta]:
        return self.deltas


def rewrite(
    deltas: list[Delta], rewritings: Rewritings, *, whole: bool = False, last: int = 0
) -> list[Delta]:
    decoder, count = RewritingDecoder(Deltas(list(deltas), last), rewritings), len(deltas)
    pieces = [b"." * count] if whole else [b"."] * count
    return [delta for piece in pieces for delta in decoder.feed(piece)] + decoder.close()


def assemble(deltas: list[Delta]) -> Reply:
    assembler = Assembler(EndpointProfile())
    assembler.feed_all(deltas)
    return assembler.finish().reply


@given(st.lists(st.integers(0, len(SENT)), max_size=8), st.booleans())
def test_calls_and_texts_come_out_as_the_original_schema_describes_them(
    places: list[int], whole: bool
) -> None:
    ends = sorted({*places, len(SENT)})
    pieces = [SENT[start:end] for start, end in zip([0, *ends], ends, strict=False)]
    deltas: list[Delta] = [ToolCallDelta(0, "1", "find"), ToolCallDelta(1, "2", "other")]
    for piece in pieces:
        deltas += [ToolCallDelta(0, arguments=piece), ToolCallDelta(1, arguments=piece)]
        deltas += [ReasoningDelta(piece), TextDelta(piece, 7)]
    deltas += [FINISH, StreamEnded()]
    reply = assemble(rewrite(deltas, Rewritings({"find": NODE}, NODE), whole=whole))
    assert [call.arguments for call in reply.calls] == [MEANT, SENT]
    assert reply.text == MEANT
    assert reply.kind is ReplyKind.COMPLETE
    untouched = assemble(rewrite(deltas, Rewritings({"find": NODE}), whole=whole))
    assert untouched.text == SENT


def test_arguments_wait_for_the_name_of_their_tool() -> None:
    deltas: list[Delta] = [
        ToolCallDelta(0, "1"),
        ToolCallDelta(0, arguments=SENT[:9]),
        ToolCallDelta(0, arguments=SENT[9:]),
        ToolCallDelta(0, name="find"),
        FINISH,
    ]
    made = rewrite(deltas, Rewritings({"find": NODE}))
    assert made == [ToolCallDelta(0, "1"), ToolCallDelta(0, name="find", arguments=MEANT), FINISH]
    del deltas[3]
    assert assemble(rewrite(deltas, Rewritings({"find": NODE}))).calls[0].arguments == SENT


def test_a_text_that_was_cut_is_whole_before_the_end_of_the_reply() -> None:
    for end in (ReplyFinished(FinishReason.LENGTH), EndMissing()):
        for last in (0, 1):
            deltas: list[Delta] = [ToolCallDelta(0, "1", "find", '{"q": 1, "skip": nu'), end]
            made = rewrite(deltas, Rewritings({"find": NODE}), last=last)
            assert made[-1] == end
            assert assemble(made).calls[0].arguments == '{"q": 1, "skip": nu'


def test_a_text_goes_on_after_an_early_finish_reason() -> None:
    deltas: list[Delta] = [TextDelta('{"q": "a'), FINISH, TextDelta('b", "top": 1}'), FINISH]
    assert assemble(rewrite(deltas, Rewritings(output=NODE))).text == '{"q": "ab", "$top": 1}'
