"""The audit log: a line for each decision about a call and for each outcome, on disk before the call goes on.

Parameters and results are redacted and cut before they are written. This module must never swallow an
error: who cannot write the log must not run the call.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct

from adh.storage.json_lines import append_line, read_lines
from adh.storage.storage_errors import StorageError
from holdfast.errors import redact
from holdfast.models import SecretValues

LONGEST_RESULT = 200
"""The longest result in a line, in characters."""
LONGEST_PARAMETER = 2_000
"""The longest text of a parameter in a line, in characters."""
_DEEPEST = 8
_MOST_ITEMS = 100
_MARK = "[redacted]"

AuditEvent = Literal["decision", "outcome", "switch"]


class AuditError(StorageError):
    """The audit log cannot be written, so the call must not run."""


class AuditEntry(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One line of the audit log.

    Args:
        at: the time, with its zone.
        event: a decision before the call runs, an outcome after it, or a switch such as safety off.
        session: the conversation.
        user: the account of the person.
        agent: the agent that calls.
        request_id: the request of the person.
        folder: the working folder.
        repository: the git repository; empty without one.
        call: the key of the call in its run.
        tool: the name of the tool.
        parameters: its parameters; redacted when they are written.
        rule: the rule that decided, with its file and line.
        level: the supervision.
        risk: the risk.
        decision: the decision about it or its outcome, such as "allowed", "denied", "success".
        decided_by: who said so: "rule", "person", "timeout", "--yes", "remembered".
        reason: why.
        checks: the safety checks, such as "backup: passed".
        result: the result, cut at 200 characters.
        seconds: how long the call took.
    """

    at: datetime
    event: AuditEvent
    session: str = ""
    user: str = ""
    agent: str = ""
    request_id: str = ""
    folder: str = ""
    repository: str = ""
    call: str = ""
    tool: str = ""
    parameters: Mapping[str, object] = {}
    rule: str = ""
    level: str = ""
    risk: str = ""
    decision: str = ""
    decided_by: str = ""
    reason: str = ""
    checks: tuple[str, ...] = ()
    result: str = ""
    seconds: float | None = None


class AuditFilter(Struct, frozen=True, kw_only=True):
    """Which lines are wanted; an empty field means any.

    Args:
        session: the conversation.
        tool: the tool.
        decision: the decision or outcome.
        agent: the agent.
    """

    session: str = ""
    tool: str = ""
    decision: str = ""
    agent: str = ""

    def matches(self, entry: AuditEntry) -> bool:
        """Whether the line is wanted."""
        return all(
            wanted in ("", getattr(entry, field))
            for field, wanted in msgspec.structs.asdict(self).items()
        )


class AuditLog:
    """The audit log of a person.

    Args:
        path: its file.
        redact_patterns: regular expressions; text that they match is not written.
        secrets: known secrets, such as API keys; they are not written.
    """

    def __init__(
        self,
        path: Path,
        *,
        redact_patterns: Sequence[str] = (),
        secrets: SecretValues | None = None,
    ) -> None:
        self.path = path
        self._patterns = tuple(re.compile(pattern) for pattern in redact_patterns)
        self._secrets = secrets or SecretValues()

    def write(self, entry: AuditEntry) -> None:
        """Write one line, and wait until it is on disk.

        Raises:
            AuditError: the line is not on disk.
        """
        result = self._clean(entry.result)
        if len(result) > LONGEST_RESULT:
            result = result[: LONGEST_RESULT - 1] + "…"
        cleaned = {
            name: self._clean(value)
            for name, value in msgspec.structs.asdict(entry).items()
            if isinstance(value, str) and name != "event"
        }
        written = msgspec.structs.replace(
            entry,
            **{
                **cleaned,
                "result": result,
                "parameters": self._clean_mapping(entry.parameters, 0),
                "checks": tuple(map(self._clean, entry.checks)),
            },
        )
        try:
            append_line(self.path, msgspec.json.encode(written))
        except StorageError as error:
            raise AuditError(error.path, error.problem, error.fix) from error

    def read(
        self,
        wanted: AuditFilter = AuditFilter(),  # noqa: B008  # REASON: it is frozen
        on_damage: Callable[[int], None] | None = None,
    ) -> Iterator[AuditEntry]:
        """Yield the lines that are wanted, oldest first.

        Args:
            wanted: which lines.
            on_damage: called with the number of each line that is no entry, such as one that a crash cut.

        Raises:
            StorageError: the file cannot be read.
        """
        decoder = msgspec.json.Decoder(AuditEntry)
        for number, line in read_lines(self.path):
            try:
                entry = decoder.decode(line)
            except msgspec.DecodeError:
                if on_damage is not None:
                    on_damage(number)
                continue
            if wanted.matches(entry):
                yield entry

    def _clean(self, text: str) -> str:
        text = text.encode("utf-8", "replace").decode() if not text.isascii() else text
        for pattern in self._patterns:
            text = pattern.sub(_MARK, text)
        return redact(self._secrets.remove_from(text))

    def _clean_mapping(self, mapping: Mapping[str, object], depth: int) -> dict[str, object]:
        return {
            self._clean(str(name)): _MARK
            if names_secret(str(name))
            else self._clean_value(value, depth + 1)
            for name, value in list(mapping.items())[:_MOST_ITEMS]
        }

    def _clean_value(self, value: object, depth: int) -> object:
        if isinstance(value, str):
            cleaned = self._clean(value)
            cut = len(value) - LONGEST_PARAMETER
            if len(cleaned) <= LONGEST_PARAMETER:
                return cleaned
            return f"{cleaned[:LONGEST_PARAMETER]}… ({cut:,} more characters)"
        if value is None or isinstance(value, bool | int | float):
            return value
        if depth >= _DEEPEST:
            return "…"
        if isinstance(value, Mapping):
            return self._clean_mapping(value, depth)
        if isinstance(value, list | tuple):
            return [self._clean_value(item, depth + 1) for item in value[:_MOST_ITEMS]]
        return f"({type(value).__name__})"


@lru_cache(1_000)
def names_secret(name: str) -> bool:
    """Whether a value of this name is a secret.

    >>> names_secret("api_key"), names_secret("file_path")
    (True, False)
    """
    return _MARK in redact(f"{name[:200]}=x7Qa93kLmWp2")
