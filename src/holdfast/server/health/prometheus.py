"""Counts and writes metrics in the text format of Prometheus."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Literal, TypeAlias

Kind: TypeAlias = Literal["counter", "gauge", "histogram"]
Labels: TypeAlias = tuple[str, ...]

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Metric:
    """A counter or a gauge, with a value for each combination of its labels.

    Args:
        name: its name.
        about: the meaning of the count, in one sentence.
        labels: the names of its labels.
        kind: "counter" or "gauge".

    >>> turns = Metric("turns_total", "Turns.", ("agent",))
    >>> turns.add(("a",))
    >>> print("".join(turns.write()), end="")
    # HELP turns_total Turns.
    # TYPE turns_total counter
    turns_total{agent="a"} 1
    """

    def __init__(self, name: str, about: str, labels: Labels = (), kind: Kind = "counter") -> None:
        self.name = name
        self._about = about
        self._labels = labels
        self._kind = kind
        self._values: dict[Labels, float] = {}

    def add(self, labels: Labels = (), amount: float = 1.0) -> None:
        """Add to the value with these labels."""
        self._values[labels] = self._values.get(labels, 0.0) + amount

    def set(self, labels: Labels, value: float) -> None:
        """Set the value with these labels."""
        self._values[labels] = value

    def get(self, labels: Labels = ()) -> float:
        """Return the value with these labels."""
        return self._values.get(labels, 0.0)

    def write(self) -> Iterator[str]:
        """Yield the lines of the metric."""
        yield from write_head(self.name, self._about, self._kind)
        for labels, value in sorted(self._values.items()):
            yield write_sample(self.name, dict(zip(self._labels, labels, strict=True)), value)


class Histogram:
    """How long something takes, for each combination of its labels.

    Args:
        name: its name.
        about: the meaning of the measure, in one sentence.
        labels: the names of its labels.
        bounds: the upper bounds of the buckets, in seconds, ascending.
    """

    def __init__(self, name: str, about: str, labels: Labels, bounds: tuple[float, ...]) -> None:
        self.name = name
        self._about = about
        self._labels = labels
        self._bounds = bounds
        self._values: dict[Labels, list[float]] = {}

    def observe(self, labels: Labels, seconds: float) -> None:
        """Add a measurement."""
        values = self._values.get(labels)
        if values is None:
            values = self._values[labels] = [0.0] * (len(self._bounds) + 2)
        for number, bound in enumerate(self._bounds):
            if seconds <= bound:
                values[number] += 1
        values[-2] += 1
        values[-1] += seconds

    def write(self) -> Iterator[str]:
        """Yield the lines of the histogram."""
        yield from write_head(self.name, self._about, "histogram")
        for labels, values in sorted(self._values.items()):
            named = dict(zip(self._labels, labels, strict=True))
            bounds = [*map(_write_number, self._bounds), "+Inf"]
            for bound, count in zip(bounds, values, strict=False):
                yield write_sample(f"{self.name}_bucket", {**named, "le": bound}, count)
            yield write_sample(f"{self.name}_sum", named, values[-1])
            yield write_sample(f"{self.name}_count", named, values[-2])


def write_head(name: str, about: str, kind: Kind) -> Iterator[str]:
    """Yield the lines that describe a metric."""
    yield f"# HELP {name} {about}\n"
    yield f"# TYPE {name} {kind}\n"


def write_sample(name: str, labels: Mapping[str, str], value: float) -> str:
    r"""Return the line of one value.

    >>> write_sample("a", {"b": 'say "x"'}, 2.5)
    'a{b="say \\"x\\""} 2.5\n'
    """
    parts = ",".join(f'{key}="{_escape(text)}"' for key, text in labels.items())
    return (
        f"{name}{{{parts}}} {_write_number(value)}\n"
        if parts
        else f"{name} {_write_number(value)}\n"
    )


def write_all(metrics: Iterable[Metric | Histogram]) -> str:
    """Return the text of metrics."""
    return "".join(line for metric in metrics for line in metric.write())


def _escape(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def _write_number(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(value)
