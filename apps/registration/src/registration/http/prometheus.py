"""The text format of Prometheus."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal, TypeAlias

Labels: TypeAlias = Mapping[str, str]
Sample: TypeAlias = tuple[Labels, float]


def write_metric(
    name: str, about: str, samples: Iterable[Sample], kind: Literal["counter", "gauge"] = "gauge"
) -> str:
    """Return the lines of a metric.

    Args:
        name: its name.
        about: what it counts, in one sentence.
        samples: its values, each with its labels.
        kind: what sort of metric it is.

    >>> print(write_metric("jobs", "Jobs.", [({"state": "sent"}, 2)]), end="")
    # HELP jobs Jobs.
    # TYPE jobs gauge
    jobs{state="sent"} 2
    """
    lines = [f"# HELP {name} {about}", f"# TYPE {name} {kind}"]
    lines += [f"{name}{_write_labels(labels)} {value:g}" for labels, value in samples]
    return "\n".join(lines) + "\n"


def _write_labels(labels: Labels) -> str:
    if not labels:
        return ""
    return "{" + ",".join(f'{name}="{_escape(value)}"' for name, value in labels.items()) + "}"


def _escape(value: str) -> str:
    return value.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')
