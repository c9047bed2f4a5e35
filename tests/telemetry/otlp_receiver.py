"""A receiver of OTLP over HTTP on loopback, which may refuse, hang or answer late."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span


class OtlpReceiver:
    """What was received, and how the next requests are answered.

    Args:
        statuses: the statuses of the first requests; later ones get 200.
        hangs: whether no request is answered before the receiver ends.
    """

    def __init__(self, statuses: tuple[int, ...] = (), *, hangs: bool = False) -> None:
        self.spans: list[Span] = []
        self.metrics: list[str] = []
        self.requests = 0
        self.url = ""
        self._statuses = list(statuses)
        self._hangs = hangs
        self._ended = threading.Event()
        self._changed = threading.Condition()

    def take(self, path: str, body: bytes) -> int:
        """Take the body of a request, and return the status of its answer."""
        with self._changed:
            self.requests += 1
            status = self._statuses.pop(0) if self._statuses else 200
            self._changed.notify_all()
        if self._hangs:
            self._ended.wait()
            return 503
        if status != 200:
            return status
        with self._changed:
            if path.endswith("/traces"):
                found = ExportTraceServiceRequest.FromString(body)
                for resource in found.resource_spans:
                    for scope in resource.scope_spans:
                        self.spans.extend(scope.spans)
            else:
                data = ExportMetricsServiceRequest.FromString(body)
                for resource in data.resource_metrics:
                    for one in resource.scope_metrics:
                        self.metrics.extend(metric.name for metric in one.metrics)
            self._changed.notify_all()
        return status

    def wait_for_requests(self, number: int) -> None:
        """Wait until so many requests have come."""
        with self._changed:
            assert self._changed.wait_for(lambda: self.requests >= number, 60.0)

    def end(self) -> None:
        """Let the requests that hang end."""
        self._ended.set()


@contextmanager
def receive(statuses: tuple[int, ...] = (), *, hangs: bool = False) -> Iterator[OtlpReceiver]:
    """Run a receiver on a free port."""
    receiver = OtlpReceiver(statuses, hangs=hangs)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            if self.headers.get("content-encoding") == "gzip":
                body = gzip.decompress(body)
            status = receiver.take(self.path, body)
            self.send_response(status)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            """Print nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    receiver.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield receiver
    finally:
        receiver.end()
        server.shutdown()
        server.server_close()
        thread.join()
