"""Traces within one process."""

import subprocess
import sys
from datetime import datetime

import pytest

from app.config.settings import SettingsError, load
from app.observe import request_ids
from app.process import tracing
from tests.support.collector import collecting
from tests.support.fleet import PATIENCE, ROOT, until

TRACED = request_ids.of_span(1, 2)
OFF = """
import sys
from app.config.settings import load
from app.process import tracing
from app.server import application, processes
from workers.conductor import process
tracing.start(load({}), "api")
with tracing.continued("req-" + "1" * 32 + "-" + "2" * 16, "a"), tracing.inside("b"):
    tracing.called("c", "", "answered", 0)
slow = ("opentelemetry.sdk.trace", "opentelemetry.exporter", "opentelemetry.proto")
sys.exit(any(name.startswith(slow) for name in sys.modules))
"""


@pytest.fixture
def collector():
    with collecting() as collector:
        tracing.start(load({"INGOT_TRACING_ENDPOINT": collector.endpoint}), "api")
        try:
            yield collector
        finally:
            tracing.stop()


def spans(collector, count):
    """The spans of this test by their names."""
    until(lambda: len(collector.spans) >= count, f"{count} spans")
    return {span.name: span for span in collector.spans}


def test_without_a_collector_no_exporter_is_imported():
    assert (
        0
        == subprocess.run(
            [sys.executable, "-c", OFF], cwd=ROOT, timeout=PATIENCE, check=False
        ).returncode
    )


def test_a_request_id_has_the_trace_and_the_span_of_its_request(collector):
    span = tracing.begin_request(None)
    name = tracing.id_of(span)
    tracing.end_request(span, "GET", "/v1/nodes", 503)
    (sent_span,) = spans(collector, 1).values()
    assert (f"req-{sent_span.trace}-{sent_span.id}", "GET /v1/nodes", True) == (
        name,
        sent_span.name,
        sent_span.failed,
    )
    assert len(name) <= 64  # the column of operations


def test_the_work_inside_is_a_child_of_the_request(collector):
    with tracing.continued(TRACED, "task", node="n"), tracing.inside("step"):
        tracing.note(outcome="failed", failed=True)
        tracing.called("bmc.order", "bmc", "unanswered", 0.5)
    sent_spans = spans(collector, 3)
    task, step, call = (sent_spans[name] for name in ("task", "step", "bmc.order"))
    assert ("0" * 31 + "1", "0" * 15 + "2") == (task.trace, task.parent)
    assert (task.id, step.id) == (step.parent, call.parent)
    assert (False, True, True) == (task.failed, step.failed, call.failed)
    assert 0.5 == pytest.approx(call.seconds)
    assert {"ingot.node": "n"} == task.facts


def test_attributes_have_no_secrets_of_addresses_and_errors(collector):
    with pytest.raises(ValueError), tracing.continued(TRACED, "task"):  # noqa: PT012
        tracing.called("bmc.order", "https://root:calvin@bmc/redfish?token=t0k3n", "answered", 0)
        raise ValueError("calvin")
    sent_spans = spans(collector, 2)
    assert sent_spans["task"].failed
    assert (
        "https://root:******@bmc/redfish?token=******"
        == sent_spans["bmc.order"].facts["server.address"]
    )
    assert not any(b"calvin" in body or b"t0k3n" in body for body in collector.bodies)


def test_long_texts_are_cut(collector):
    with tracing.continued(TRACED, "x" * 10_000, node="y" * 10_000):
        pass
    (span,) = spans(collector, 1).values()
    assert tracing.LONGEST_VALUE == len(span.name) == len(span.facts["ingot.node"])


def test_an_operation_is_as_long_as_its_row_says(collector):
    began, end = datetime(2026, 1, 1, 12), datetime(2026, 1, 1, 12, 30)
    tracing.ended(TRACED, "operation clean", began, end, failed=True, code="refused")
    span = spans(collector, 1)["operation clean"]
    assert (1800, True, "refused") == (span.seconds, span.failed, span.facts["ingot.code"])


@pytest.mark.parametrize(
    "request_id",
    [None, "", "req-1", "req-249dae56-132c-41b9-a916-f9df37870c7b", f"{TRACED}0", f"{TRACED}\n"],
)
def test_a_request_without_trace_has_no_spans(collector, request_id):
    with tracing.continued(request_id, "task"), tracing.inside("step"):
        tracing.called("bmc.order", "bmc", "answered", 0)
        tracing.note(outcome="done")
    now = datetime(2026, 1, 1)
    tracing.ended(request_id, "operation clean", now, now, failed=False)
    with tracing.continued(TRACED, "last"):
        pass
    assert {"last"} == set(spans(collector, 1))


@pytest.mark.parametrize(
    "url", ["collector:4318", "ftp://c/v1/traces", "http://", "http://c:port/"]
)
def test_an_endpoint_is_a_url(url):
    with pytest.raises(SettingsError, match=r"INGOT_TRACING_ENDPOINT: expected a URL such as"):
        load({"INGOT_TRACING_ENDPOINT": url})


@pytest.mark.parametrize("url", ["http://u:p@c/v1/traces", "http://c/v1/traces?key=1"])
def test_an_endpoint_has_no_credentials(url):
    with pytest.raises(
        SettingsError, match=r"INGOT_TRACING_ENDPOINT: .* without credentials"
    ) as refusal:
        load({"INGOT_TRACING_ENDPOINT": url})
    assert "u:p" not in str(refusal.value)


def test_a_collector_without_opentelemetry_is_refused_with_the_extra_that_has_it(monkeypatch):
    """It is not among the packages that every service has."""
    traced = load({"INGOT_TRACING_ENDPOINT": "http://127.0.0.1:4318/v1/traces"})
    tracing.require(traced)
    for name in ("opentelemetry", "opentelemetry.sdk"):
        monkeypatch.setattr(tracing, "find_spec", lambda module, name=name: module != name or None)
        with pytest.raises(
            SettingsError, match=rf"^\[tracing\]endpoint: .*{name}: .*ingot\[otel\]"
        ):
            tracing.require(traced)
        tracing.require(load({}))
