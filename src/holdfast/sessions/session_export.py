r"""Writes a session as lines of text, and reads it back exactly.

    {"schema":1,"run":"ada","seq":1,"key":"t1",...,"sum":"1f0c..."}
    {"schema":1,"end":6,"sum":"77ab..."}

Each line is a journal record with a checksum of itself and all lines before it. The last line
counts them. So the import detects changed, missing, repeated and moved lines and a truncated file,
and names the line. It repairs nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b

from holdfast.core.effects import CloseTurn, Effect, effect_digest
from holdfast.core.errors import IllegalEventError
from holdfast.journal.encoding import (
    SCHEMA,
    check_schema,
    decode,
    encode,
    escape_json,
    from_json,
    record_of,
    to_line,
)
from holdfast.journal.journal_errors import JournalCorruptError, JournalError
from holdfast.journal.port import Record
from holdfast.sessions.session_history import Replay

_SUM = re.compile(r',"sum":"([0-9a-f]{16})"\}\s*')
_FIX = "Export it again, or restore it from a backup"


class _ChecksumChain:
    """The checksum of all lines so far."""

    def __init__(self) -> None:
        self._sum = ""

    def add(self, text: str) -> str:
        """Add a text; return the new checksum."""
        data = (self._sum + text).encode("utf-8", "surrogatepass")
        self._sum = blake2b(data, digest_size=8).hexdigest()
        return self._sum


def export_lines(runs: Mapping[str, Sequence[Record]]) -> Iterator[str]:
    """Write the runs of a session as lines without line ends, in the given order."""
    chain, count = _ChecksumChain(), 0
    for run, records in runs.items():
        for seq, record in enumerate(records, 1):
            text = escape_json(encode(to_line(run, seq, record)))
            yield _add_checksum(chain, text)
            count += 1
    yield _add_checksum(chain, f'{{"schema":{SCHEMA},"end":{count}}}')


def _add_checksum(chain: _ChecksumChain, text: str) -> str:
    return f'{text[:-1]},"sum":"{chain.add(text)}"}}'


def import_lines(lines: Iterable[str], name: str) -> dict[str, list[Record]]:
    """Read exported lines and check every run; return the runs in the order of the lines.

    Args:
        lines: the exported lines.
        name: names the source in errors.

    Raises:
        JournalCorruptError: a line is damaged, missing or superfluous; the error names it.
        JournalVersionError: a newer Holdfast wrote it.
    """
    runs: dict[str, list[Record]] = {}
    line_numbers: dict[str, list[int]] = {}
    chain, ended, number = _ChecksumChain(), False, 0
    for number, exported in enumerate(lines, 1):
        place = f"{name}, line {number}"
        if ended and not exported.strip():
            continue
        if ended:
            raise _corrupt_error(place, "follows the last line")
        text = _verify_checksum(chain, exported, place)
        found = from_json(text, place)
        if "end" in found:
            check_schema(found.get("schema"), place)
            ended = True
            continue
        line = decode(text, place)
        records = runs.setdefault(line.run, [])
        if line.seq != len(records) + 1:
            raise _corrupt_error(
                place, f"is record {line.seq} of {line.run!r} and not {len(records) + 1}"
            )
        records.append(record_of(line, place))
        line_numbers.setdefault(line.run, []).append(number)
    if not ended:
        raise _corrupt_error(f"{name}, line {number + 1}", "is missing: the end was cut off")
    if not runs:
        raise _corrupt_error(name, "holds no record")
    for run, records in runs.items():
        _check_fold(records, [f"{name}, line {number}" for number in line_numbers[run]])
    return runs


def _verify_checksum(chain: _ChecksumChain, line: str, place: str) -> str:
    """Return the line without its checksum. Raises JournalCorruptError if the checksum is wrong."""
    found = _SUM.search(line)
    if found is None or found.end() != len(line):
        raise _corrupt_error(place, "has no checksum at its end")
    text = line[: found.start()] + "}"
    if chain.add(text) != found[1]:
        raise _corrupt_error(
            place, "has a wrong checksum: it was changed, or a line before it is missing"
        )
    return text


def _check_fold(records: Sequence[Record], places: Sequence[str]) -> None:
    """Raise JournalCorruptError if the events of a run are not possible in this order."""
    replay = Replay(records)
    for record, place in zip(records, places, strict=True):
        effect = replay.machine.find_pending(record.event.key)
        if record.digest and (effect is None or not _is_outcome_of(effect, record.digest)):
            raise _corrupt_error(
                place, f"{record.event.key} is not the outcome of a planned effect"
            )
        try:
            replay.apply_next()
        except IllegalEventError as error:
            raise _corrupt_error(place, str(error)) from error


def _is_outcome_of(effect: Effect, digest: str) -> bool:
    # A replay does not know the error of a rejected output, so the digest of its end differs.
    error = effect.error if isinstance(effect, CloseTurn) else None
    return digest == effect_digest(effect) or (error is not None and error.code == "output")


def _corrupt_error(place: str, why: str) -> JournalError:
    return JournalCorruptError(place, why, fix=_FIX)
