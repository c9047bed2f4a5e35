"""Finds the calls of a reply that are the same call, which a gateway or a model has sent twice.

Calls are the same if they have one id, one name and equal arguments. Arguments are compared as JSON
values: the order of keys and the spelling of a number do not matter, and `true` is not `1`.
Arguments that are not strict JSON are the same only as texts. Calls without an id are never the
same. This module must never change or run a call.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence

from holdfast.core.json_strict import NotJson, read_strict_json
from holdfast.core.messages import ToolCall


def find_duplicate_calls(calls: Sequence[ToolCall]) -> dict[int, int]:
    """Return the index of each call that an earlier call of its reply equals, and that call's index.

    >>> pay = ToolCall("1", "pay", '{"to": "Ada", "amount": 5}')
    >>> find_duplicate_calls([pay, ToolCall("1", "pay", '{"amount": 5.0, "to": "Ada"}')])
    {1: 0}
    >>> find_duplicate_calls([pay, ToolCall("2", "pay", pay.arguments)])
    {}
    """
    counts = Counter(call.id for call in calls if call.id)
    duplicates: dict[int, int] = {}
    firsts: dict[tuple[str, str, str], int] = {}
    for at, call in enumerate(calls):
        if counts[call.id] > 1:
            first = firsts.setdefault((call.id, call.name, _make_key(call.arguments)), at)
            if first != at:
                duplicates[at] = first
    return duplicates


def count_distinct_calls(calls: Sequence[ToolCall]) -> int:
    """Return how many calls of a reply run.

    >>> count_distinct_calls([ToolCall("1", "pay"), ToolCall("1", "pay"), ToolCall("2", "pay")])
    2
    """
    return len(calls) - len(find_duplicate_calls(calls))


def _make_key(arguments: str) -> str:
    """Return a text that is the same for equal arguments only: one for each call, and not for each pair."""
    text = arguments.strip() or "{}"
    try:
        read_strict_json(text)
        return json.dumps(json.loads(text, parse_float=_read_float), sort_keys=True)
    except (NotJson, ValueError, RecursionError):
        return text


def _read_float(text: str) -> int | float:
    value = float(text)
    return int(value) if value.is_integer() else value
