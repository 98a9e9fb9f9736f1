"""A collector of traces: receives OTLP over HTTP, and keeps the spans."""

from contextlib import contextmanager
from typing import NamedTuple

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.support.web import Handler, serving


class Span(NamedTuple):
    name: str
    trace: str
    id: str
    parent: str  # "": none
    failed: bool
    seconds: float
    role: str  # of the process
    facts: dict  # attributes


class Collector(Handler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.bodies.append(body)
        self.server.spans.extend(decoded(body))
        self.answer(200)


def decoded(body):
    """Spans of a message."""
    for group in ExportTraceServiceRequest.FromString(body).resource_spans:
        process = values(group.resource.attributes)
        for span in (span for scope in group.scope_spans for span in scope.spans):
            yield Span(
                span.name, span.trace_id.hex(), span.span_id.hex(), span.parent_span_id.hex(),
                span.status.code == span.status.STATUS_CODE_ERROR,
                (span.end_time_unix_nano - span.start_time_unix_nano) / 1e9,
                process["ingot.role"], values(span.attributes),
            )  # fmt: skip


def values(attributes):
    return {
        attribute.key: getattr(attribute.value, attribute.value.WhichOneof("value"))
        for attribute in attributes
    }


@contextmanager
def collecting(handler=Collector):
    """Run a collector. `endpoint`: its URL; `spans`: those received; `bodies`: the messages."""
    with serving(handler, spans=[], bodies=[]) as server:
        server.endpoint = f"{server.url}/v1/traces"
        yield server
