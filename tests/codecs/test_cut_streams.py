"""Every recorded stream, cut: no part of it is accepted, or runs a call that the whole does not run.

A cut is at the end of an event, and for one stream of each shape at every byte. What follows it is
a clean end of the body, a body that the transport reports as broken, or an end marker, as gateways
write it after the connection behind them failed: that of the wire, and those of the others, since
gateways translate between wires. A fixed selection of the cuts is tried;
`HOLDFAST_FULL=1` tries all of them.
"""

import json
import os
import pickle
import random
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from itertools import accumulate, groupby

import pytest
from tests.codecs.test_is_complete import _EVENT, CODECS, provider_of, said
from tests.corpus import Row, rows

from holdfast.codecs.assemble import AssembledReply, Assembler
from holdfast.codecs.endpoint_profile import EndpointProfile
from holdfast.codecs.json_text import read_strict_json
from holdfast.codecs.wire import Decoder
from holdfast.core.deltas import Delta, ReplyFinished, holds_content
from holdfast.core.messages import ReplyKind

pytestmark = pytest.mark.slow  # cuts thousands of recorded streams

FULL = bool(os.environ.get("HOLDFAST_FULL"))
TRIED = 800
LATE = 6
MARKERS = {
    "openai_chat": b"data: [DONE]\n\n",
    "anthropic_messages": b'event: message_stop\ndata: {"type": "message_stop"}\n\n',
    "openai_responses": b'data: {"type": "response.completed", "response": {"output": []}}\n\n',
    "gemini": b"data: [DONE]\n\n",
}
EARLY = {
    "openai_chat": b'data: {"choices": [{"delta": {}, "finish_reason": "tool_calls"}]}\n\n',
    "anthropic_messages": b"event: message_delta\n"
    b'data: {"type": "message_delta", "delta": {"stop_reason": "tool_use"}}\n\n',
    "gemini": b'data: {"candidates": [{"finishReason": "STOP"}]}\n\n',
}
SPOILED = "a finish reason was put into it"
STRICT, LOOSE = EndpointProfile(), EndpointProfile(ends_without_finish=True)
RUN = (ReplyKind.COMPLETE, ReplyKind.PAUSED, ReplyKind.MALFORMED_CALL)
Calls = Counter[tuple[str, str]]
Cut = tuple[Row, int]


def streams(dialect: str) -> list[Row]:
    framings = ("sse", "json_array", "ndjson")
    return [row for row in rows(dialect) if row.framing in framings and (row.status or 200) < 300]


def begin(row: Row, profile: EndpointProfile = STRICT) -> tuple[Decoder, Assembler]:
    codec = CODECS[row.dialect]
    return codec.make_decoder(row.content_type, provider_of(row)), Assembler(profile, codec.name)


def assemble(assembler: Assembler, deltas: Iterable[Delta]) -> AssembledReply:
    for delta in deltas:
        assembler.feed(delta)
    return assembler.finish()


def read(row: Row, profile: EndpointProfile = STRICT) -> AssembledReply:
    decoder, assembler = begin(row, profile)
    return assemble(assembler, [*decoder.feed(row.body), *decoder.close()])


def calls_run(assembled: AssembledReply) -> Calls:
    """The calls that the runtime executes, each as its name and its arguments in one form."""
    found: Calls = Counter()
    if assembled.error is not None or assembled.reply.kind not in RUN:
        return found
    for call in assembled.reply.calls:
        arguments = read_strict_json(call.arguments)
        if call.name and isinstance(arguments, dict):
            found[call.name, json.dumps(arguments, sort_keys=True)] += 1
    return found


class Stream:
    """One recorded stream, read once; at each cut the state is copied and the copy is ended.

    Attributes:
        seen: how often a part failed, was accepted, ran all calls of the whole, and ran fewer.
    """

    def __init__(self, row: Row, profile: EndpointProfile, seen: Counter[str]) -> None:
        self.row = row
        self.seen = seen
        self.profile = profile
        whole = read(row, profile)
        self.succeeds = whole.error is None
        # A marker behind an early finish reason is the end of a whole stream, for all one can tell.
        self.marked = self.succeeds and SPOILED not in row.notes
        self.runs = calls_run(whole)
        self.all = said(whole.reply)
        self.is_finished = False

    def check(self, cuts: set[int]) -> None:
        """Try the cuts, which are numbers of bytes that arrive."""
        decoder, assembler = begin(self.row, self.profile)
        start = 0
        for event in _EVENT.findall(self.row.body):
            inside = [at for at in range(1, len(event) + 1) if start + at in cuts]
            if inside:
                self.cut(event, inside, pickle.dumps((decoder, assembler)), start)
            self.note_finish(decoder.feed(event), assembler)
            start += len(event)

    def note_finish(self, deltas: list[Delta], assembler: Assembler) -> None:
        """Feed deltas, and note whether the last of them with a meaning is a finish reason."""
        for delta in deltas:
            assembler.feed(delta)
            if isinstance(delta, ReplyFinished):
                self.is_finished = True
            elif holds_content([delta]):
                self.is_finished = False

    def cut(self, event: bytes, inside: list[int], state: bytes, start: int) -> None:
        last: object = None
        for at in inside:
            decoder, assembler = pickle.loads(state)
            came = decoder.feed(event[:at])
            was_finished = self.is_finished
            self.note_finish(came, assembler)
            held, proven = decoder.close(), assembler.is_complete
            if at == len(event) and self.marked:
                for marker in MARKERS.values():
                    marked, other = pickle.loads(state)
                    found = marked.feed(event + b"\n\n" + marker) + marked.close()
                    self.mark(start + at, assemble(other, found))
            self.is_finished = was_finished
            if (came, held) != last:
                last = (came, held)
                self.end(start + at, assemble(assembler, held), proven=proven)
            self.seen["cuts"] += 1

    def mark(self, cut: int, assembled: AssembledReply) -> None:
        self.judge(cut, "marker", assembled)
        is_whole = said(assembled.reply) == self.all
        if self.profile is STRICT and assembled.error is None:
            assert self.is_finished or is_whole, (self.row.id, cut, assembled.reply)
        if cut == len(self.row.body):
            assert is_whole, (self.row.id, cut, assembled.error)
            assert assembled.error is None, (self.row.id, cut, assembled.error)

    def end(self, cut: int, assembled: AssembledReply, *, proven: bool) -> None:
        self.judge(cut, "clean", assembled)
        # A transfer that breaks by a reset or by a missing end fails the attempt without the proof.
        if proven:
            self.judge(cut, "broken", assembled)
        if assembled.error is not None and self.succeeds:
            assert assembled.error.info.category.is_retryable, (self.row.id, cut, assembled.error)

    def judge(self, cut: int, ending: str, assembled: AssembledReply) -> None:
        run = calls_run(assembled)
        assert run <= self.runs, (self.row.id, cut, ending, run - self.runs)
        accepted = assembled.error is None
        self.seen[f"{ending}: accepted" if accepted else f"{ending}: failed"] += 1
        if accepted and self.runs:
            self.seen[f"{ending}: ran all" if run == self.runs else f"{ending}: ran fewer"] += 1


def sweep(dialect: str, cuts: Iterable[Cut], profile: EndpointProfile = STRICT) -> Counter[str]:
    seen: Counter[str] = Counter()
    for _, group in groupby(cuts, key=lambda cut: cut[0].id):
        pairs = list(group)
        Stream(pairs[0][0], profile, seen).check({cut for _, cut in pairs})
    print(f"\n{dialect}: {dict(sorted(seen.items()))}")
    return seen


def sample(cuts: list[Cut], count: int) -> list[Cut]:
    """All of the cuts, or a fixed selection of them in the same order."""
    if FULL or len(cuts) <= count:
        return cuts
    places = random.Random(0).sample(range(len(cuts)), count)
    return [cuts[at] for at in sorted(places)]


def with_early_finish(row: Row, rng: random.Random) -> Row:
    """The stream with a finish reason somewhere in it, and the rest of its content behind that."""
    events = _EVENT.findall(row.body)
    events.insert(rng.randrange(len(events)), EARLY[row.dialect])
    return replace(row, body=b"".join(events), notes=(SPOILED,))


def at_events(recorded: list[Row]) -> list[Cut]:
    """The ends of the events; of the last ones of each stream as many as of all others."""
    early: list[Cut] = []
    late: list[Cut] = []
    for row in recorded:
        ends = [(row, end) for end in accumulate(map(len, _EVENT.findall(row.body)))]
        early += ends[:-LATE]
        late += ends[-LATE:]
    return sample(early, TRIED // 2) + sample(late, TRIED // 2)


@pytest.mark.parametrize("dialect", CODECS)
def test_no_stream_cut_at_an_event_runs_another_call(dialect: str) -> None:
    seen = sweep(dialect, at_events(streams(dialect)))
    assert seen["clean: failed"]
    assert seen["clean: ran all"]
    assert not seen["clean: ran fewer"] + seen["broken: ran fewer"]


@pytest.mark.parametrize("dialect", EARLY)
def test_no_stream_with_an_early_finish_reason_runs_another_call(dialect: str) -> None:
    rng = random.Random(dialect)
    recorded = [row for row in streams(dialect) if row.framing == "sse" and calls_run(read(row))]
    spoiled = [with_early_finish(row, rng) for row in recorded for _ in range(5 if FULL else 1)]
    seen = sweep(dialect, at_events(spoiled))
    assert seen["clean: failed"]
    assert seen["clean: ran all"]


def test_no_stream_without_a_required_finish_reason_runs_another_call() -> None:
    assert sweep("openai_chat", at_events(streams("openai_chat")), LOOSE)["clean: accepted"]


@pytest.mark.parametrize("dialect", MARKERS)
def test_no_whole_stream_is_refused(dialect: str) -> None:
    count = 0
    for row in streams(dialect):
        assembled = read(row)
        ends = b"[DONE]" in row.body[-40:] or b"message_stop" in row.body[-60:]
        if ends or b'"type":"response.completed"' in row.body:
            count += 1
            assert assembled.reply.kind is not ReplyKind.UNTERMINATED, row.id
    print(f"\n{dialect}: {count} streams with an end marker")
    assert count or dialect == "gemini"


def shape(row: Row) -> tuple[str, ...]:
    """The kinds of the deltas in order, without repetitions."""
    decoder, _ = begin(row)
    kinds = (type(delta).__name__ for delta in [*decoder.feed(row.body), *decoder.close()])
    return tuple(kind for kind, _ in groupby(kinds))


@pytest.mark.parametrize("dialect", CODECS)
def test_no_stream_of_any_shape_cut_at_a_byte_runs_another_call(dialect: str) -> None:
    shortest: dict[tuple[str, ...], Row] = {}
    for row in sorted(streams(dialect), key=lambda row: len(row.body)):
        shortest.setdefault(shape(row), row)
    cuts = [(row, cut) for row in shortest.values() for cut in range(1, len(row.body) + 1)]
    print(f"\n{dialect}: {len(shortest)} shapes, {len(cuts)} cuts")
    assert sweep(dialect, sample(cuts, TRIED))["clean: failed"]
