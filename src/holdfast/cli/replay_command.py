"""`holdfast replay PATH [RUN]`: the events of a run, read from its journal.

It changes no record. Control characters in texts of models and tools are printed as escapes.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import TYPE_CHECKING

from holdfast.cli.run_printer import LINE_WIDTH, shorten, write_lines
from holdfast.cli.times import format_count, format_time
from holdfast.cli.upkeep_words import add_tenant
from holdfast.core.errors import ConfigurationError, ErrorInfo
from holdfast.core.question_log import ASKED

if TYPE_CHECKING:
    from holdfast.cli.timeline import TimelineEntry, TurnLine
    from holdfast.core.cost import Cost
    from holdfast.core.messages import Message, Usage
    from holdfast.models.prices import Prices
    from holdfast.testing.recording import Recording


def add_arguments(sub: argparse.ArgumentParser) -> None:
    """Add the arguments for the journal, the run and the output."""
    sub.add_argument(
        "path",
        help="a SqliteJournal file, an export of one, or the address of a journal, "
        "for example postgresql://...",
    )
    sub.add_argument(
        "run", nargs="?", help="a run, or the name of a session; default: the only run"
    )
    add_tenant(sub)
    sub.add_argument("--turn", type=int, metavar="N", help="only this turn")
    sub.add_argument("--json", action="store_true", help="print JSON on one line")
    sub.add_argument(
        "--at", metavar="KEY", help="print the state after this event instead of the timeline"
    )
    sub.add_argument(
        "--prices",
        metavar="FILE",
        help="TOML file with the prices of a million tokens by model, or `known` for published prices; "
        "default: the costs that were saved",
    )


def main(args: argparse.Namespace) -> int:
    """Print the timeline, or the state after one event."""
    import asyncio

    from holdfast.testing.recording import load_recording

    recording = asyncio.run(load_recording(args.path, args.run, tenant=args.tenant))
    if args.at is not None:
        lines = _render_state(recording, args.at, as_json=args.json)
    else:
        lines = _render_timeline(recording, args)
    if args.json:
        write_lines(lines)
        return 0
    for line in lines:
        print(line)
    return 0


def _render_timeline(recording: Recording, args: argparse.Namespace) -> Iterator[str]:
    from holdfast.cli.timeline import build_timeline

    turns = build_timeline(recording.records, _read_prices(args.prices))
    counted = sum(turn.kind == "turn" and turn.counts for turn in turns)
    if args.turn is not None:
        last = len(turns)
        turns = [turn for turn in turns if turn.number == args.turn]
        if not turns:
            raise ConfigurationError("turn", f"there is no turn {args.turn}; the last is {last}")
    if args.json:
        yield _encode_json({"run": recording.run, "turns": turns})
        return
    yield shorten(
        f"run {recording.run}: {format_count(counted, 'turn')}, {format_count(len(recording.records), 'record')}"
    )
    for turn in turns:
        yield ""
        yield from _render_turn(turn)


def _render_turn(turn: TurnLine) -> Iterator[str]:
    waits = f", {turn.waited:.2f} s of it waiting for answers" if turn.waited else ""
    name = "turn" if turn.kind == "turn" else "change"
    took = f" in {turn.seconds:.2f} s" if turn.kind == "turn" else ""
    gone = "" if turn.counts or turn.kind == "rewind" else " (rewound)"
    yield f"{name} {turn.number}  {format_time(turn.at)}  {turn.status}{took}{waits}{gone}"
    yield _format_row("said", turn.text)
    for entry in turn.entries:
        yield from _render_entry(entry)
    if turn.answer:
        yield _format_row("answer", turn.answer)
    if turn.error is not None:
        yield _format_row("error", _format_error(turn.error), 2 * LINE_WIDTH)
    if turn.usage.total:
        yield _format_row("used", _format_tokens(turn.usage, turn.cost))


def _format_row(name: str, text: str, longest: int = LINE_WIDTH) -> str:
    return f"  {name:14}{shorten(text, longest - 16)}"


def _render_entry(entry: TimelineEntry) -> Iterator[str]:
    took = "" if entry.took is None else f"{entry.took:.2f} s"
    place = entry.key.partition(".")[2].removesuffix(ASKED) or entry.key
    head = f"  {shorten(place, 16):16} {f'+{entry.after:.2f} s':>10} {took:>9}  "
    yield head + shorten(entry.summary, max(LINE_WIDTH - len(head), 30))
    notes = [
        f"{failed.target} failed after {failed.attempts} attempts: {_format_error(failed.error)}"
        for failed in entry.tried
    ]
    if entry.attempts != 1:
        notes.append(f"{entry.attempts} attempts")
    if entry.error is not None:
        notes.append(_format_error(entry.error))
    if entry.usage is not None and entry.usage.total:
        notes.append(_format_tokens(entry.usage, entry.cost))
    for note in notes:
        yield f"{'':16}{shorten(note, 2 * LINE_WIDTH)}"


def _format_error(error: ErrorInfo) -> str:
    """Format the safe half of an error, with the details that a provider's support asks for."""
    known = {
        "status": error.status,
        "code": error.code,
        "type": error.type if error.type != error.code else None,
        "request": error.request_id,
        "provider": error.provider,
    }
    about = [error.category.value, *(f"{name} {value}" for name, value in known.items() if value)]
    return f"{error.safe} [{', '.join(about)}]"


def _format_tokens(usage: Usage, cost: Cost | None) -> str:
    cached = f" ({usage.cached_input} cached)" if usage.cached_input else ""
    money = f", {cost} paid" if cost is not None else ""
    return f"{usage.input} tokens in{cached}, {usage.output} out{money}"


def _render_state(recording: Recording, key: str, *, as_json: bool) -> Iterator[str]:
    from holdfast.cli.timeline import state_at

    found = state_at(recording.records, key)
    if found is None:
        raise ConfigurationError(
            "at", f"the run has no event {key!r}", fix="`holdfast journal show` lists the keys"
        )
    state, pending = found
    if as_json:
        yield _encode_json({"run": recording.run, "at": key, "state": state, "pending": pending})
        return
    yield shorten(f"run {recording.run} after {key}")
    yield f"  turn {state.turn}, iteration {state.iteration}, {state.status.value}"
    yield f"  waits for {state.phase.value}: {', '.join(pending) or 'nothing'}"
    yield f"  {state.tools_run} tools run, {_format_tokens(state.usage, None)}"
    for index, result in state.results:
        yield _format_row(f"result {index}", f"{result.name}: {result.text}")
    if state.error is not None:
        yield _format_row("error", _format_error(state.error), 2 * LINE_WIDTH)
    yield f"  {format_count(len(state.messages), 'message')}"
    for message in state.messages:
        yield _format_row(f"  {message.role}", _render_message(message))


def _render_message(message: Message) -> str:
    from holdfast.core.messages import ToolResult

    results = [
        f"{part.name}: {part.text}" for part in message.parts if isinstance(part, ToolResult)
    ]
    calls = [f"{call.name}({call.arguments})" for call in message.calls]
    return " | ".join([message.text, *results, *calls]).strip(" |")


def _read_prices(path: str | None) -> Prices | None:
    from holdfast.models.prices import Prices

    return None if path is None else Prices.read_file(path, argument="--prices")


def _encode_json(value: object) -> str:
    from holdfast.journal.encoding import escape_json, to_json

    return escape_json(to_json(value))
