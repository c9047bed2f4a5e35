"""The observer that makes OpenTelemetry spans and metrics of the runs of agents.

The spans come from `span_fold`; this module applies its steps to the tracer and the meter of the application. It is
the only one that imports OpenTelemetry, whose SDK the application brings and configures. Without an SDK, nothing is
recorded. It must never raise into a run, wait, or send anything itself.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from contextvars import Token
from types import TracebackType

from opentelemetry import metrics, trace
from opentelemetry.context import Context, attach, detach
from opentelemetry.metrics import CallbackOptions, MeterProvider
from opentelemetry.metrics import Observation as Measured
from opentelemetry.trace import (
    Link,
    NonRecordingSpan,
    Span,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    TraceFlags,
    Tracer,
    TracerProvider,
)

from holdfast.core.argument_checks import check_value
from holdfast.core.detached_errors import detach_for_log
from holdfast.core.errors import ConfigurationError
from holdfast.core.events import Event, ToolFinished
from holdfast.core.notices import Notice
from holdfast.core.turn_options import is_traceparent
from holdfast.resilience.pipeline import Done
from holdfast.telemetry import genai_content as content
from holdfast.telemetry import genai_names as names
from holdfast.telemetry.observers import (
    CURRENT_TRACE,
    IGNORED_TRACES,
    Observation,
    ObservedAttempt,
    ObservedCall,
    ObservedTool,
    ObservedTurn,
)
from holdfast.telemetry.span_fold import (
    DRIVE,
    AddValue,
    Attributes,
    DriveFold,
    EndSpan,
    SpanStep,
    StartSpan,
)

_log = logging.getLogger("holdfast")
_KINDS = {"internal": SpanKind.INTERNAL, "client": SpanKind.CLIENT}
_SECONDS_BETWEEN_LOGS = 60.0


class OpenTelemetry:
    """Makes spans and metrics of all runs of an agent: `Agent(observers=[OpenTelemetry()])`.

    The agents in its tools are followed. The names are those of the conventions for generative AI, v0.1.0.

    Args:
        content: whether spans have the messages, the instructions and the arguments and results of tools,
            redacted and cut. They may hold personal data.
        tracer_provider: makes the tracer; None for the provider of the process.
        meter_provider: makes the meter; None for the provider of the process.

    Raises:
        ConfigurationError: an argument is wrong.
    """

    reads_deltas = False
    follows_agents = True

    def __init__(
        self,
        *,
        content: bool = False,
        tracer_provider: TracerProvider | None = None,
        meter_provider: MeterProvider | None = None,
    ) -> None:
        check_value("content", content, bool)
        check_value("tracer_provider", tracer_provider, TracerProvider | None)
        check_value("meter_provider", meter_provider, MeterProvider | None)
        tracer = trace.get_tracer(
            "holdfast", tracer_provider=tracer_provider, schema_url=names.SCHEMA_URL
        )
        meter = metrics.get_meter(
            "holdfast", meter_provider=meter_provider, schema_url=names.SCHEMA_URL
        )
        self._writer = _SpanWriter(tracer, _Instruments(meter), has_content=content)

    def on_event(self, seen: Observation) -> None:
        """Take an event or a notice of a run."""
        self._writer.take_item(seen.run_id, seen.item)

    def around(self, call: ObservedCall) -> AbstractContextManager[None]:
        """Return the context manager around a part of a run, within which its span is the current one.

        Args:
            call: the part of the run.
        """
        return _Scope(self._writer, call)

    def find_trace(self) -> str:
        """Return the `traceparent` of the current span; "" if there is none."""
        return _find_current_trace()


def make_exporting_observer(*, content: bool = False) -> OpenTelemetry:
    """Return an observer that sends spans and metrics by OTLP, as the standard environment variables say.

    `OTEL_EXPORTER_OTLP_ENDPOINT` is the address of the receiver and `OTEL_SERVICE_NAME` the name of the service. What
    was not sent is sent when the process ends.

    Args:
        content: as for `OpenTelemetry`.

    Raises:
        ConfigurationError: the SDK or the exporter is not installed.
    """
    try:
        from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.metrics import MeterProvider as SdkMeterProvider
        from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
        from opentelemetry.sdk.resources import SERVICE_NAME, Resource
        from opentelemetry.sdk.trace import TracerProvider as SdkTracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ModuleNotFoundError as error:
        raise ConfigurationError(
            "--otel",
            f"needs {error.name}",
            fix="pip install opentelemetry-sdk opentelemetry-exporter-otlp-proto-http",
        ) from error
    named = {} if os.environ.get("OTEL_SERVICE_NAME") else {SERVICE_NAME: "holdfast"}
    resource = Resource.create(named)
    spans = SdkTracerProvider(resource=resource)
    spans.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    reader = PeriodicExportingMetricReader(OTLPMetricExporter())
    meters = SdkMeterProvider([reader], resource=resource)
    return OpenTelemetry(content=content, tracer_provider=spans, meter_provider=meters)


class _SpanWriter:
    """Applies the steps of the folds of all drives to a tracer and to instruments.

    Args:
        tracer: makes the spans.
        instruments: record the values of metrics.
        has_content: whether spans have messages, arguments and results.
    """

    __slots__ = ("_failures", "_instruments", "_tracer", "drives", "has_content")

    def __init__(self, tracer: Tracer, instruments: _Instruments, *, has_content: bool) -> None:
        self.has_content = has_content
        self.drives: dict[str, _Drive] = {}
        self._tracer = tracer
        self._instruments = instruments
        self._failures = _FailureLog()

    def take_item(self, run_id: str, item: Event | Notice) -> None:
        """Take an event or a notice of a run."""
        drive = self.drives.get(run_id)
        if drive is None or not drive.fold.reads_item(item):
            return
        try:
            if self.has_content and isinstance(item, ToolFinished):
                drive.set_result(item)
            self._apply(drive, drive.fold.feed(item, time.time_ns()))
        except Exception as error:  # noqa: BLE001  # REASON: processors and exporters are other people's code
            self._failures.log(error)

    def enter_call(self, call: ObservedCall) -> tuple[Token[Context] | None, str]:
        """Begin the span of a part of a run, and make it the current one.

        Args:
            call: the part of the run.

        Returns:
            The token with which it is left, and the id of the span.
        """
        try:
            if isinstance(call, ObservedTurn):
                return attach(self._begin_drive(call)), DRIVE
            drive = self.drives.get(call.run_id)
            if drive is None:
                return None, ""
            now = time.time_ns()
            if isinstance(call, ObservedAttempt):
                span, steps = drive.fold.begin_attempt(call, now)
                self._apply(drive, steps)
                if self.has_content:
                    drive.set_request(span, call)
            else:
                span = call.key
                self._apply(drive, drive.fold.begin_tool(call, now))
                if self.has_content:
                    drive.set_text(span, names.TOOL_CALL_ARGUMENTS, call.arguments)
            found = drive.spans.get(span)
            return (None if found is None else attach(trace.set_span_in_context(found))), span
        except Exception as error:  # noqa: BLE001  # REASON: as above
            self._failures.log(error)
            return None, ""

    def leave_call(
        self,
        call: ObservedCall,
        entered: tuple[Token[Context] | None, str],
        error: BaseException | None,
    ) -> None:
        """End the span of a part of a run, and make the one around it the current one again.

        Args:
            call: the part of the run.
            entered: the return value of `enter_call`.
            error: the exception that ended it.
        """
        token, span = entered
        if token is not None:
            detach(token)
        try:
            drive = self.drives.get(call.run_id)
            if drive is None:
                return
            now = time.time_ns()
            if isinstance(call, ObservedTurn):
                del self.drives[call.run_id]
                self._apply(drive, drive.fold.end_drive(now, error))
            elif isinstance(call, ObservedAttempt):
                if self.has_content and isinstance(call.outcome, Done):
                    drive.set_reply(span, call)
                self._apply(drive, drive.fold.end_attempt(call, span, now))
        except Exception as failure:  # noqa: BLE001  # REASON: as above
            self._failures.log(failure)

    def _begin_drive(self, call: ObservedTurn) -> Context:
        """Begin the span of a drive below its parent, and write its place in the trace into the call."""
        around = trace.get_current_span()
        here = around.get_span_context()
        context, given = trace.set_span_in_context(around), _parse_trace(call.trace)
        is_outside = given is not None and (call.is_continued or here.trace_id != given.trace_id)
        if given is not None and is_outside and not call.is_nested:
            context = trace.set_span_in_context(NonRecordingSpan(given))
        before = _parse_trace(call.drive)
        drive = _Drive(DriveFold(call), context, [] if before is None else [Link(before)])
        self.drives[call.run_id] = drive
        self._apply(drive, drive.fold.begin_drive(time.time_ns()))
        span = drive.spans.get(DRIVE)
        own = None if span is None else span.get_span_context()
        if own is not None and own.is_valid:
            call.own = _format_trace(own)
            if not call.is_continued and (call.is_nested or not call.trace):
                call.trace = _format_trace(here) if here.is_valid else call.own
        return context if span is None else trace.set_span_in_context(span)

    def _apply(self, drive: _Drive, steps: list[SpanStep]) -> None:
        spans, record = drive.spans, self._instruments.record
        for step in steps:
            if isinstance(step, AddValue):
                record[step.metric](step.value, step.attributes)
            elif isinstance(step, StartSpan):
                spans[step.id] = self._start(drive, step)
            elif isinstance(step, EndSpan):
                _end(spans.pop(step.id, None), step)
            elif (span := spans.get(step.id)) is not None:
                span.add_event(step.name, step.attributes, step.at)

    def _start(self, drive: _Drive, step: StartSpan) -> Span:
        parent = drive.spans.get(step.parent) if step.parent else None
        context = drive.context if parent is None else trace.set_span_in_context(parent)
        return self._tracer.start_span(
            step.name,
            context,
            _KINDS[step.kind],
            step.attributes,
            links=drive.links if step.id == DRIVE else (),
            start_time=step.at,
        )


def _end(span: Span | None, step: EndSpan) -> None:
    if span is None:
        return
    if step.attributes:
        span.set_attributes(step.attributes)
    if step.error:
        span.set_attribute(names.ERROR_TYPE, step.error)
        span.set_status(Status(StatusCode.ERROR))
    span.end(step.at)


class _Scope(AbstractContextManager[None]):
    """The context manager around one part of a run."""

    __slots__ = ("_call", "_entered", "_sent", "_writer")

    def __init__(self, writer: _SpanWriter, call: ObservedCall) -> None:
        self._writer = writer
        self._call = call
        self._entered: tuple[Token[Context] | None, str] = (None, "")
        self._sent: Token[str] | None = None

    def __enter__(self) -> None:
        self._entered = self._writer.enter_call(self._call)
        if isinstance(self._call, ObservedTool):
            self._sent = CURRENT_TRACE.set(_find_current_trace())

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        if self._sent is not None:
            CURRENT_TRACE.reset(self._sent)
        self._writer.leave_call(self._call, self._entered, error)


class _Drive:
    """The open spans of one drive, by their ids in the fold."""

    __slots__ = ("context", "fold", "links", "spans")

    def __init__(self, fold: DriveFold, context: Context, links: list[Link]) -> None:
        self.fold = fold
        self.context = context
        self.links = links
        self.spans: dict[str, Span] = {}

    def set_text(self, span: str, attribute: str, text: str) -> None:
        """Write a text of a tool."""
        found = self.spans.get(span)
        if found is not None and found.is_recording():
            found.set_attribute(attribute, content.cut_text(text))

    def set_result(self, item: ToolFinished) -> None:
        """Write the result of a tool."""
        self.set_text(item.key, names.TOOL_CALL_RESULT, item.result.text)

    def set_request(self, attempt: str, call: ObservedAttempt) -> None:
        """Write the messages of a request, once for all attempts."""
        span = self.spans.get(attempt.rpartition(".")[0])
        if span is None or not span.is_recording() or not attempt.endswith(".1"):
            return
        request = call.request
        span.set_attribute(names.INPUT_MESSAGES, content.encode_messages(request.messages))
        if request.instructions:
            written = content.encode_instructions(request.instructions)
            span.set_attribute(names.SYSTEM_INSTRUCTIONS, written)
        if request.tools:
            span.set_attribute(names.TOOL_DEFINITIONS, content.encode_tools(request))

    def set_reply(self, attempt: str, call: ObservedAttempt) -> None:
        """Write the reply of an attempt."""
        span = self.spans.get(attempt.rpartition(".")[0])
        if span is not None and span.is_recording() and isinstance(call.outcome, Done):
            span.set_attribute(names.OUTPUT_MESSAGES, content.encode_reply(call.outcome.value))


class _Instruments:
    """The instruments of a meter, as functions by the names of their metrics."""

    __slots__ = ("record",)

    def __init__(self, meter: metrics.Meter) -> None:
        self.record: dict[str, Callable[[float, Attributes], None]] = {}
        for name, unit in names.HISTOGRAMS.items():
            bounds = names.SECONDS if unit == "s" else None
            made = meter.create_histogram(name, unit, explicit_bucket_boundaries_advisory=bounds)
            self.record[name] = made.record
        for name, unit in names.COUNTERS.items():
            self.record[name] = meter.create_counter(name, unit).add
        for name, unit in names.GAUGES.items():
            self.record[name] = meter.create_gauge(name, unit).set
        meter.create_observable_counter(
            names.IGNORED_TRACES_METRIC, [_count_ignored_traces], "{header}"
        )


def _count_ignored_traces(_options: CallbackOptions) -> Iterable[Measured]:
    return [Measured(IGNORED_TRACES["malformed"])]


class _FailureLog:
    """Logs failures of processors and exporters, at most one a minute."""

    __slots__ = ("_next", "_unlogged")

    def __init__(self) -> None:
        self._next = 0.0
        self._unlogged = 0

    def log(self, error: Exception) -> None:
        """Log a failure, or count it until the next minute."""
        now = time.monotonic()
        if now < self._next:
            self._unlogged += 1
            return
        self._next = now + _SECONDS_BETWEEN_LOGS
        _log.warning(
            "spans could not be recorded (%d more failures since the last of these lines)",
            self._unlogged,
            exc_info=detach_for_log(error),
        )
        self._unlogged = 0


def _parse_trace(text: str) -> SpanContext | None:
    if not is_traceparent(text):
        return None
    _, trace_id, span_id, flags = text.split("-")
    return SpanContext(
        int(trace_id, 16), int(span_id, 16), is_remote=True, trace_flags=TraceFlags(int(flags, 16))
    )


def _find_current_trace() -> str:
    here = trace.get_current_span().get_span_context()
    return _format_trace(here) if here.is_valid else ""


def _format_trace(context: SpanContext) -> str:
    return f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"
