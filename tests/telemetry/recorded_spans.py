"""Spans and metrics that a test records in memory, and the tree of them as text."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from typing import Any

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from holdfast.core.messages import Usage
from holdfast.telemetry import OpenTelemetry
from holdfast.telemetry import genai_names as names

_SHOWN = (
    names.ATTEMPT_NUMBER,
    names.LANDED,
    names.HTTP_STATUS,
    names.HEDGE,
    names.UNASKED,
    names.STATUS,
    names.TOOL_OUTCOME,
    names.QUESTION_OUTCOME,
    names.CONTINUED,
)
"""The attributes that the tree shows, besides the category of an error."""


class Recorder:
    """An observer whose spans and metrics stay in memory."""

    def __init__(self, *, content: bool = False) -> None:
        self.exporter = InMemorySpanExporter()
        self.provider = TracerProvider(shutdown_on_exit=False)
        self.provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.reader = InMemoryMetricReader()
        self.meters = MeterProvider([self.reader], shutdown_on_exit=False)
        self.observer = OpenTelemetry(
            content=content, tracer_provider=self.provider, meter_provider=self.meters
        )

    @property
    def spans(self) -> tuple[ReadableSpan, ...]:
        """The spans that have ended, in the order of their ends."""
        return self.exporter.get_finished_spans()

    def named(self, start: str) -> list[ReadableSpan]:
        """The spans whose name begins with a text."""
        return [one for one in self.spans if one.name.startswith(start)]

    def sum_usage(self) -> Usage:
        """The sum of the usage of all chats."""
        total = Usage()
        for span in self.named("chat"):
            said = dict(span.attributes or {})
            fields: dict[str, Any] = {
                "input": said.get(names.USAGE_INPUT, 0),
                "output": said.get(names.USAGE_OUTPUT, 0),
            }
            fields |= {field: said.get(name, 0) for field, name in names.USAGE_PARTS.items()}
            total += Usage(**fields)
        return total

    def sum_cost(self) -> Decimal:
        """The sum of the known costs of all chats."""
        said = [dict(span.attributes or {}).get(names.COST, "0") for span in self.named("chat")]
        return sum((Decimal(str(one)) for one in said), Decimal(0))

    def measures(self) -> dict[str, list[tuple[dict[str, Any], Any]]]:
        """The points of each metric: attributes, and the value, the sum or the count."""
        found: dict[str, list[tuple[dict[str, Any], Any]]] = {}
        data = self.reader.get_metrics_data()
        for resource in data.resource_metrics if data is not None else ():
            for scope in resource.scope_metrics:
                for metric in scope.metrics:
                    points = [
                        (dict(point.attributes or {}), getattr(point, "value", None) or point)
                        for point in metric.data.data_points
                    ]
                    found[metric.name] = points
        return found


def draw_tree(spans: Iterable[ReadableSpan]) -> str:
    """Return the tree of spans: names, the attributes that tests look at, errors and events, without times."""
    known = sorted(spans, key=lambda one: (one.start_time or 0, _id(one)))
    ids = {_id(one) for one in known}
    lines: list[str] = []

    def draw(span: ReadableSpan, depth: int) -> None:
        lines.append("  " * depth + _describe(span))
        for child in known:
            if child.parent is not None and child.parent.span_id == _id(span):
                draw(child, depth + 1)

    for span in known:
        if span.parent is None or span.parent.span_id not in ids:
            draw(span, 0)
    return "\n".join(lines)


def _id(span: ReadableSpan) -> int:
    return span.context.span_id if span.context is not None else 0


def _describe(span: ReadableSpan) -> str:
    said = dict(span.attributes or {})
    words = [span.name]
    words += [f"{name.rpartition('.')[2]}={said[name]}" for name in _SHOWN if name in said]
    if names.ERROR_TYPE in said:
        words.append(f"!{said[names.ERROR_TYPE]}")
    words += [f"({event.name})" for event in span.events]
    return " ".join(words)
