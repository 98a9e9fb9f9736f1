"""
Traces: spans of requests, tasks, steps and calls to machines, for an OpenTelemetry collector.

Each process sends its spans itself, from a thread with a bounded queue: if the collector is slow or
out of reach, spans are dropped, and no request or step waits. Until `start`, no
exporter is imported, and each function here costs one comparison.

The id of a request says whether it is traced (`app.observe.request_ids`), also to the processes
that continue its operation.
"""

import random
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import UTC, datetime
from importlib.metadata import version
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from app.config.settings import Settings, SettingsError
from app.observe import request_ids
from app.text.masking import mask_urls

if TYPE_CHECKING:  # installed with a collector only
    from opentelemetry.context import Context
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.trace import Span, SpanKind, Tracer

#: Most spans that wait to be sent, most spans of a message, and seconds between two messages.
QUEUED, BATCH, INTERVAL = 4096, 512, 1.0
#: Seconds for a message to the collector, with its repetitions.
TIMEOUT = 5.0
#: Seconds at the end of a process to send the last spans.
FAREWELL = 2.0
#: Most bytes of the collector's answer.
LONGEST_ANSWER = 1 << 16
#: Most characters of an attribute.
LONGEST_VALUE = 300
#: Prefix of the attributes that OpenTelemetry has no name for.
PREFIX = "ingot."

_NO_SPAN: AbstractContextManager[None] = nullcontext()
_provider: "TracerProvider | None" = None
_tracer: "Tracer | None" = None  # None while nothing is traced
_ratio = 0.0  # share of the requests that are traced


def require(settings: Settings) -> None:
    """
    Check that traces can be made, if a collector is set.

    Raises SettingsError: OpenTelemetry is not installed.
    """
    if not settings.tracing.endpoint:
        return
    for name in ("opentelemetry", "opentelemetry.sdk", "opentelemetry.exporter.otlp.proto.http"):
        try:
            is_installed = find_spec(name) is not None
        except ModuleNotFoundError:  # a package above it
            is_installed = False
        if not is_installed:
            raise SettingsError(f"[tracing]endpoint: there is no {name}: pip install 'ingot[otel]'")


def start(settings: Settings, role: str) -> None:
    """Trace from now on, if a collector is set; call it after the last fork."""
    global _provider, _tracer, _ratio  # noqa: PLW0603 - state of the process
    tracing = settings.tracing
    if not tracing.endpoint:
        return
    # here: the import takes long, and is needed with a collector only
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import SpanLimits, TracerProvider, sampling
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    from drivers.net import answers
    from drivers.net.networks import Reach

    everywhere = Reach("[tracing]endpoint", "", "", (), ())
    session = answers.session(
        answers.MachineAdapter(tracing.endpoint, "the collector", everywhere, LONGEST_ANSWER)
    )
    exporter = OTLPSpanExporter(tracing.endpoint, timeout=TIMEOUT, session=session)
    facts = {"service.name": "ingot", "service.version": version("ingot"), f"{PREFIX}role": role}
    _provider = TracerProvider(
        sampler=sampling.ALWAYS_ON,
        resource=Resource.create(facts),
        span_limits=SpanLimits(max_attributes=32, max_attribute_length=LONGEST_VALUE),
        shutdown_on_exit=False,  # it may wait for the collector for half a minute
    )
    _provider.add_span_processor(
        BatchSpanProcessor(
            exporter,
            max_queue_size=QUEUED,
            max_export_batch_size=BATCH,
            schedule_delay_millis=INTERVAL * 1000,
        )
    )
    _tracer, _ratio = _provider.get_tracer("ingot"), tracing.sample_ratio


def stop() -> None:
    """Trace nothing any more; send the last spans, within FAREWELL seconds."""
    global _provider, _tracer  # noqa: PLW0603
    if _provider is None:
        return
    sending = threading.Thread(target=_provider.shutdown, name="last spans", daemon=True)
    _provider = _tracer = None
    sending.start()
    sending.join(FAREWELL)


def begin_request(traceparent: str | None) -> "Span | None":
    """
    Start the span of an API request. Returns None if the request is not traced.

    traceparent: the client's header. A valid one names trace and parent of the span, and nothing
    else: whether the request is traced is decided here.
    """
    if _tracer is None or random.random() >= _ratio:  # noqa: S311 - no secret
        return None
    from opentelemetry.context import Context
    from opentelemetry.trace import SpanKind
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    carrier = {"traceparent": traceparent} if traceparent else {}
    parent = TraceContextTextMapPropagator().extract(carrier, Context())
    span = _tracer.start_span("request", parent, SpanKind.SERVER)
    return span if span.is_recording() else None  # OTEL_SDK_DISABLED


def id_of(span: "Span") -> str:
    """Return the id of the request that a span belongs to."""
    context = span.get_span_context()
    return request_ids.of_span(context.trace_id, context.span_id)


def end_request(span: "Span", method: str, route: str, status: int) -> None:
    """End the span of a request. route: template of its path."""
    span.update_name(f"{method} {route}")
    span.set_attribute("http.request.method", method)
    span.set_attribute("http.route", route)
    span.set_attribute("http.response.status_code", status)
    if status >= 500:
        _mark_failed(span)
    span.end()


def continued(
    request_id: str | None, name: str, *, began: int | None = None, **facts: object
) -> AbstractContextManager[object]:
    """
    Continue the trace of a request in this process, by a span around the work inside.

    began: start of the span, in nanoseconds since 1970; now by default.
    """
    parent = _tracer and request_ids.span_of(request_id)
    if not parent:
        return _NO_SPAN
    from opentelemetry.trace import SpanKind

    return _running(name, _remote(*parent), SpanKind.CONSUMER, began, facts)


def inside(name: str, **facts: object) -> AbstractContextManager[object]:
    """Add a span around the work inside, if this thread continues a trace."""
    if not _is_traced():
        return _NO_SPAN
    from opentelemetry.trace import SpanKind

    return _running(name, None, SpanKind.INTERNAL, None, facts)


def note(*, failed: bool = False, **facts: object) -> None:
    """Add facts to the span around this call, if there is one."""
    if not _is_traced():
        return
    from opentelemetry.trace import get_current_span

    span = get_current_span()
    span.set_attributes(_attributes(facts))
    if failed:
        _mark_failed(span)


def called(name: str, address: str, result: str, seconds: float) -> None:
    """Add the span of a call to a machine that has just ended, if this thread continues a trace."""
    if not _is_traced():
        return
    from opentelemetry.trace import SpanKind

    facts = {"server.address": mask_urls(address), "result": result}
    end = time.time_ns()
    span = _started(name, None, SpanKind.CLIENT, end - int(seconds * 1e9), facts)
    if result != "answered":
        _mark_failed(span)
    span.end(end)


def ended(
    request_id: str | None,
    name: str,
    began: datetime,
    end: datetime,
    *,
    failed: bool,
    **facts: object,
) -> None:
    """Add a span of a request's trace that has ended. began, end: UTC."""
    parent = _tracer and request_ids.span_of(request_id)
    if not parent:
        return
    from opentelemetry.trace import SpanKind

    span = _started(name, _remote(*parent), SpanKind.INTERNAL, _nanoseconds(began), facts)
    if failed:
        _mark_failed(span)
    span.end(_nanoseconds(end))


def _is_traced() -> bool:
    """Whether this thread works inside a span."""
    if _tracer is None:
        return False
    from opentelemetry.trace import get_current_span

    return bool(get_current_span().is_recording())


def _remote(trace: int, span: int) -> "Context":
    """Return the context whose span is one of another process."""
    from opentelemetry import trace as api
    from opentelemetry.context import Context

    parent = api.SpanContext(trace, span, is_remote=True, trace_flags=api.TraceFlags(1))
    return api.set_span_in_context(api.NonRecordingSpan(parent), Context())


def _started(
    name: str,
    context: "Context | None",
    kind: "SpanKind",
    began: int | None,
    facts: Mapping[str, object],
) -> "Span":
    """Start a span. context: of its parent, by default the span of this thread."""
    assert _tracer is not None  # the callers have seen it
    return _tracer.start_span(name[:LONGEST_VALUE], context, kind, _attributes(facts), (), began)


@contextmanager
def _running(
    name: str,
    context: "Context | None",
    kind: "SpanKind",
    began: int | None,
    facts: Mapping[str, object],
) -> Iterator["Span"]:
    from opentelemetry.trace import use_span

    span = _started(name, context, kind, began, facts)
    try:
        # texts of exceptions may contain addresses and secrets
        with use_span(span, record_exception=False, set_status_on_exception=False):
            yield span
    except BaseException:
        _mark_failed(span)
        raise
    finally:
        span.end()


def _attributes(facts: Mapping[str, object]) -> dict[str, Any]:
    """Name facts as attributes; one without a dot gets the prefix."""
    return {
        name if "." in name else PREFIX + name: value
        for name, value in facts.items()
        if value is not None
    }


def _mark_failed(span: "Span") -> None:
    from opentelemetry.trace import StatusCode

    span.set_status(StatusCode.ERROR)


def _nanoseconds(moment: datetime) -> int:
    return int(moment.replace(tzinfo=UTC).timestamp() * 1_000_000) * 1000
