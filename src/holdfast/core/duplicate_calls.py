"""Finds the calls of a reply that are the same call, which a gateway or a model has sent twice.

Calls are the same if they have one id, one name and equal arguments. Arguments are compared as JSON
values: the order of keys and the spelling of a number do not matter, and `true` is not `1`.
Arguments that are not strict JSON are the same only as texts. Calls without an id are never the
same. This module must never change or run a call.
"""

from __future__ import annotations

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
    if len(calls) < 2 or len({call.id for call in calls}) == len(calls):
        return {}
    duplicates: dict[int, int] = {}
    firsts: dict[tuple[str, str], list[int]] = {}
    for at, call in enumerate(calls):
        if not call.id:
            continue
        earlier = firsts.setdefault((call.id, call.name), [])
        first = next((one for one in earlier if _have_equal_arguments(calls[one], call)), None)
        if first is None:
            earlier.append(at)
        else:
            duplicates[at] = first
    return duplicates


def count_distinct_calls(calls: Sequence[ToolCall]) -> int:
    """Return how many calls of a reply run.

    >>> count_distinct_calls([ToolCall("1", "pay"), ToolCall("1", "pay"), ToolCall("2", "pay")])
    2
    """
    return len(calls) - len(find_duplicate_calls(calls))


def _have_equal_arguments(one: ToolCall, other: ToolCall) -> bool:
    texts = one.arguments.strip() or "{}", other.arguments.strip() or "{}"
    if texts[0] == texts[1]:
        return True
    try:
        return is_equal_json(read_strict_json(texts[0]), read_strict_json(texts[1]))
    except NotJson:
        return False


def is_equal_json(one: object, other: object) -> bool:
    """Whether two JSON values are equal: 1 equals 1.0, and true equals neither.

    >>> is_equal_json({"a": [1, None]}, {"a": [1.0, None]}), is_equal_json([True], [1])
    (True, False)
    """
    pairs = [(one, other)]  # no recursion, because the values may be nested deeply
    while pairs:
        left, right = pairs.pop()
        if isinstance(left, dict) and isinstance(right, dict):
            if left.keys() != right.keys():
                return False
            pairs += [(value, right[key]) for key, value in left.items()]
        elif isinstance(left, list) and isinstance(right, list):
            if len(left) != len(right):
                return False
            pairs += zip(left, right, strict=True)
        elif left != right or isinstance(left, bool) != isinstance(right, bool):
            return False
    return True
