"""Divides the calls that an endpoint takes at once among the processes that call it. Pure."""

from __future__ import annotations

from collections.abc import Mapping


def divide_fairly(total: int, wanted: Mapping[str, int]) -> Mapping[str, int]:
    """Return how many calls each process may have at once.

    A process that wants less than an equal part gets what it wants, and the others divide the rest.
    What nobody wants is divided too, so that a process can begin calls before it says so. Each gets
    at least one, which is more than `total` if there are more processes than that.

    Args:
        total: the number of calls of all processes together.
        wanted: the number of calls that each process has or wants.

    >>> divide_fairly(10, {"a": 20, "b": 1})
    {'b': 1, 'a': 9}
    >>> divide_fairly(10, {"a": 2, "b": 1})
    {'b': 4, 'a': 5}
    >>> divide_fairly(2, {"a": 9, "b": 9, "c": 9})
    {'a': 1, 'b': 1, 'c': 1}
    """
    ordered = sorted(wanted.items(), key=lambda item: (item[1], item[0]))
    unwanted = total - sum(max(number, 1) for _, number in ordered)
    if ordered and unwanted >= 0:
        part = unwanted // len(ordered)
        return {name: max(number, 1) + part for name, number in ordered}
    shares: dict[str, int] = {}
    left = total
    for place, (name, number) in enumerate(ordered):
        share = max(1, min(max(number, 1), left // (len(ordered) - place)))
        shares[name] = share
        left = max(0, left - share)
    return shares
