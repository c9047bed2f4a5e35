"""Reading the restrictions of a rule from its file.

It must never leave one out: what cannot be read is a problem.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import time

from adh.rules.fields import FieldReader, join_keys
from adh.rules.restrictions import (
    DAYS,
    RESTRICTIONS,
    ParameterFilter,
    PathPattern,
    RateLimit,
    Restriction,
    SizeLimit,
    TimeWindow,
    UrlScheme,
)
from adh.rules.yaml_tree import Items, Keyed, Node, Scalar

_UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KIB": 2**10, "MIB": 2**20}
_UNITS["GIB"] = 2**30
_SIZE = re.compile(r"([0-9]{1,15}) ?([A-Za-z]*)", re.ASCII)
_TIME = re.compile(r"([01][0-9]|2[0-3]):([0-5][0-9])", re.ASCII)
_LONGEST_PERIOD = 7 * 24 * 3600

_Read = Callable[[FieldReader, Node, str], Restriction | None]


def read_restrictions(reader: FieldReader, node: Node, key: str) -> tuple[Restriction, ...]:
    """Return the restrictions below a key `restrictions`; what is wrong is reported."""
    known = reader.read_known(node, key, RESTRICTIONS)
    reader.report_empty(node, key)
    found = [_READERS[name](reader, value, join_keys(key, name)) for name, value in known.items()]
    return tuple(restriction for restriction in found if restriction is not None)


def _read_path_pattern(reader: FieldReader, node: Node, key: str) -> Restriction | None:
    lists = _read_lists(reader, node, key, ("allow", "deny"))
    reader.report_empty(node, key)
    return PathPattern(allow=lists.get("allow", ()), deny=lists.get("deny", ()))


def _read_size_limit(reader: FieldReader, node: Node, key: str) -> Restriction | None:
    match = _SIZE.fullmatch(node.text) if isinstance(node, Scalar) else None
    unit = _UNITS.get(match[2].upper()) if match else None
    if match is None or unit is None:
        reader.report(node, key, "not a size", "write a number of bytes, or such as 10 MB or 4 KiB")
        return None
    return SizeLimit(int(match[1]) * unit)


def _read_url_scheme(reader: FieldReader, node: Node, key: str) -> Restriction | None:
    lists = _read_lists(reader, node, key, ("schemes", "private"))
    _require(reader, node, key, lists, ("schemes",))
    schemes = tuple(scheme.lower() for scheme in lists.get("schemes", ()))
    return UrlScheme(schemes, tuple(host.lower() for host in lists.get("private", ())))


def _read_rate_limit(reader: FieldReader, node: Node, key: str) -> Restriction | None:
    fields = reader.read_known(node, key, ("calls", "seconds"))
    _require(reader, node, key, fields, ("calls", "seconds"))
    if len(fields) < 2:
        return None
    calls = reader.read_whole(fields["calls"], join_keys(key, "calls"), 1, 1_000_000)
    seconds = reader.read_whole(fields["seconds"], join_keys(key, "seconds"), 1, _LONGEST_PERIOD)
    return None if calls is None or seconds is None else RateLimit(calls, seconds)


def _read_time_window(reader: FieldReader, node: Node, key: str) -> Restriction | None:
    fields = reader.read_known(node, key, ("from", "to", "days"))
    _require(reader, node, key, fields, ("from", "to"))
    begins = (
        _read_time(reader, fields["from"], join_keys(key, "from")) if "from" in fields else None
    )
    ends = _read_time(reader, fields["to"], join_keys(key, "to")) if "to" in fields else None
    days = _read_days(reader, fields["days"], join_keys(key, "days")) if "days" in fields else DAYS
    if begins is None or ends is None:
        return None
    if begins == ends:
        fix = "write two different times, or remove the window"
        reader.report(node, key, "begins and ends at the same time", fix)
    return TimeWindow(begins, ends, days)


def _read_time(reader: FieldReader, node: Node, key: str) -> time | None:
    match = _TIME.fullmatch(node.text) if isinstance(node, Scalar) else None
    if match is None:
        reader.report(node, key, "not a time", 'write it with four digits, such as "09:30"')
        return None
    return time(int(match[1]), int(match[2]))


def _read_days(reader: FieldReader, node: Node, key: str) -> tuple[str, ...]:
    nodes = node.nodes if isinstance(node, Items) else (node,)
    words = {day: day for day in DAYS}
    found = [reader.read_word(day, f"{key}[{at}]", words) for at, day in enumerate(nodes)]
    if not found:
        reader.report(node, key, "an empty list", "name at least one day, or remove the key")
    return tuple(day for day in found if day is not None)


def _read_parameter_filter(reader: FieldReader, node: Node, key: str) -> Restriction | None:
    fields = reader.read_known(node, key, ("allow", "deny"))
    reader.report_empty(node, key)
    for name, inner in fields.items():
        reader.report_empty(inner, join_keys(key, name))
    filters = {
        name: {
            parameter: reader.read_texts(value, join_keys(key, name, parameter))
            for parameter, (_, value) in reader.read_mapping(inner, join_keys(key, name)).items()
        }
        for name, inner in fields.items()
    }
    return ParameterFilter(allow=filters.get("allow", {}), deny=filters.get("deny", {}))


def _read_lists(
    reader: FieldReader, node: Node, key: str, known: tuple[str, ...]
) -> dict[str, tuple[str, ...]]:
    fields = reader.read_known(node, key, known)
    return {name: reader.read_texts(value, join_keys(key, name)) for name, value in fields.items()}


def _require(
    reader: FieldReader, node: Node, key: str, fields: Mapping[str, object], names: tuple[str, ...]
) -> None:
    for name in names:
        if isinstance(node, Keyed) and name not in fields:
            reader.report(node, key, f"{name} is missing", f"write {name} below it")


_READERS: Mapping[str, _Read] = {
    "path_pattern": _read_path_pattern,
    "size_limit": _read_size_limit,
    "url_scheme": _read_url_scheme,
    "rate_limit": _read_rate_limit,
    "time_window": _read_time_window,
    "parameter_filter": _read_parameter_filter,
}
