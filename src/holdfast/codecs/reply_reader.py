"""The part that the readers of all wires share: errors inside a body, and the counts of unknown objects.

This module knows no field of any wire.
"""

from __future__ import annotations

from collections.abc import Callable

from holdfast.codecs.json_text import dump_json
from holdfast.codecs.wire import Failure
from holdfast.core.deltas import Delta, ErrorReceived, NotAReply
from holdfast.core.errors import ErrorInfo

_MOST_KINDS = 64
_LONGEST_KIND = 80


class ReplyReader:
    """The base class of the readers: each turns the objects of one body into deltas.

    Args:
        classify: classifies an error that the body reports.
        provider: the preset's name, for `classify`.

    Attributes:
        unknown_counts: the number of objects of each unknown kind.
    """

    __slots__ = (
        "_classify",
        "_failed",
        "_provider",
        "_saw_known",
        "_saw_unknown",
        "unknown_counts",
    )

    def __init__(self, classify: Callable[[Failure], ErrorInfo], provider: str) -> None:
        self._classify = classify
        self._provider = provider
        self._saw_known = False
        self._saw_unknown = False
        self._failed = False
        self.unknown_counts: dict[str, int] = {}

    @property
    def has_read_nothing(self) -> bool:
        """Whether no object was read."""
        return not (self._saw_known or self._saw_unknown or self._failed)

    def _report_error(self, body: dict[str, object], out: list[Delta]) -> None:
        """Add the error that the body reports."""
        self._failed = True
        failure = Failure(provider=self._provider, body=dump_json(body).encode())
        out.append(ErrorReceived(self._classify(failure)))

    def _report_missing(self, expected: str, out: list[Delta]) -> None:
        """Add the deltas that every body of this wire has, if this body had only unknown objects."""
        if self._saw_unknown and not self._saw_known and not self._failed:
            self._failed = True
            out.append(NotAReply(expected, "missing"))

    def _report_second_reply(self, out: list[Delta]) -> None:
        """Add that the body holds two replies, which must not be merged."""
        self._failed = True
        out.append(NotAReply("one reply in the body", "a second reply"))

    def _count_unknown(self, kind: str) -> None:
        # The number of kinds is limited, so that a hostile server cannot fill the memory.
        kind = kind[:_LONGEST_KIND]
        counts = self.unknown_counts
        if kind in counts or len(counts) < _MOST_KINDS:
            counts[kind] = counts.get(kind, 0) + 1
