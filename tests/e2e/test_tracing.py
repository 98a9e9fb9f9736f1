"""Traces of a running service, as a collector receives them."""

import threading

import pytest

from drivers.simulator.simulator import running
from tests.support.collector import Collector, collecting
from tests.support.fleet import AGENTS, Fleet, until
from tests.support.ports import free_port
from tests.support.web import Handler

VERBS = {"manage": "manageable", "provide": "available", "active": "active"}
PACE = {"boot_seconds": 0.3, "heartbeat_gap": 0.3, "retry_factor": 0.05}
REQUEST = "PUT /v1/nodes/<ident>/states/provision"


def traced(fleet, spans, node, kind):
    """The spans of an operation's trace, once its end has arrived; else None."""
    operation = fleet.operation(node, kind)
    trace = operation["request_id"].split("-")[1]
    trace_spans = [span for span in list(spans) if span.trace == trace]
    ended = [span for span in trace_spans if span.name == f"operation {kind}"]
    steps = [step["attempts"] for step in operation["steps"]]
    tasks = [span for span in trace_spans if span.name == "ingot.run"]
    # an attempt that died with its conductor has no span
    enough = len(tasks) >= sum(steps) - sum(step["deaths"] for step in operation["steps"])
    requested = [span for span in trace_spans if span.name == REQUEST]
    return trace_spans if ended and enough and requested else None


def check(fleet, spans, node, kind):
    """Check names, parents and facts of the spans of an operation; return them by their name."""
    operation = fleet.operation(node, kind)
    spans_by_name = {}
    for span in spans:
        spans_by_name.setdefault(span.name, []).append(span)
    (request,) = spans_by_name[REQUEST]
    assert ("", "api", 202) == (
        request.parent, request.role, request.facts["http.response.status_code"]
    )  # fmt: skip
    (end,) = spans_by_name[f"operation {kind}"]
    assert (request.id, "succeeded", operation["uuid"]) == (
        end.parent, end.facts["ingot.outcome"], end.facts["ingot.operation"]
    )  # fmt: skip
    tasks = {span.id: span for span in spans_by_name["ingot.run"]}
    for task in tasks.values():
        assert (request.id, node, "conductor") == (
            task.parent, task.facts["ingot.node"], task.role
        )  # fmt: skip
    steps = {}
    for label in {f"{step['interface']}.{step['step']}" for step in operation["steps"]}:
        for step in spans_by_name[label]:
            assert label == tasks[step.parent].facts["ingot.step"]
            steps[step.id] = step
    assert len(tasks) == len(steps)
    for span in spans:
        if span.name.startswith(("bmc.", "agent.")):
            assert span.parent in steps
            assert span.seconds >= 0
    return spans_by_name


def test_each_operation_has_one_trace_from_the_request_to_the_machine(tmp_path):
    with (
        collecting() as collector,
        running(machines=1, **PACE) as simulator,
        Fleet(tmp_path, **AGENTS, INGOT_TRACING_ENDPOINT=collector.endpoint) as fleet,
    ):
        (node,) = fleet.enrol(simulator)
        secret = simulator.machines[0].driver_info()["redfish_password"]
        for verb, state in VERBS.items():
            fleet.provision([node], verb)
            fleet.await_state([node], state)
            kind = verb
            spans = until(
                lambda kind=kind: traced(fleet, collector.spans, node, kind), f"a trace of {kind}"
            )
            spans_by_name = check(fleet, spans, node, kind)
            assert spans_by_name["bmc.order"]
            if kind == "active":
                assert [name for name in spans_by_name if name.startswith("agent.")]
        path = f"{fleet.url}/v1/nodes/{node}/management/boot_device"
        assert 200 == fleet.http.get(path, timeout=60).status_code
        call = until(
            lambda: [span for span in collector.spans if span.name == "call"], "the span of a call"
        )[0]
        orders = [span for span in collector.spans if span.parent == call.id]
        assert ["bmc.order"] == [order.name for order in orders]
        for span in collector.spans:
            values = " ".join(map(str, span.facts.values()))
            assert secret not in values
            assert "agent_token" not in values
        acted = fleet.log("step.acted")
        assert acted
        assert all(entry["trace_id"] == entry["request_id"].split("-")[1] for entry in acted)


def test_a_trace_goes_on_after_the_death_of_a_conductor(tmp_path):
    with (
        collecting() as collector,
        Fleet(
            tmp_path, conductors=2, restart=True, INGOT_TRACING_ENDPOINT=collector.endpoint,
            INGOT_KILL_POINTS=f"any:acted:active=die-{tmp_path}/once",
        ) as fleet,
    ):  # fmt: skip
        (node,) = fleet.create_nodes(1)
        for verb, state in VERBS.items():
            fleet.provision([node], verb)
            fleet.await_state([node], state)
        first_step = fleet.operation(node, "active")["steps"][0]
        assert 1 == first_step["deaths"]
        spans = until(lambda: traced(fleet, collector.spans, node, "active"), "the whole trace")
        spans_by_name = check(fleet, spans, node, "active")
        attempts = spans_by_name[f"{first_step['interface']}.{first_step['step']}"]
        assert {first_step["conductor"]} == {
            attempt.facts["ingot.conductor"] for attempt in attempts
        }
        # the first attempt has died with its conductor
        assert set(range(2, first_step["attempts"] + 1)) == {
            attempt.facts["ingot.attempt"] for attempt in attempts
        }


@pytest.mark.parametrize(
    ("traceparent", "honoured"),
    [
        ("00-" + "a1" * 16 + "-" + "b2" * 8 + "-00", True),
        ("00-" + "0" * 32 + "-" + "b2" * 8 + "-01", False),
        ("ff-" + "a1" * 16 + "-" + "b2" * 8 + "-01", False),
        ("00-" + "a1" * 1600 + "-" + "b2" * 8 + "-01", False),
        ("'; drop table operations", False),
    ],
)
def test_a_client_names_the_parent_only(traced_api, traceparent, honoured):
    fleet, collector = traced_api
    answer = fleet.http.get(
        f"{fleet.url}/v1/nodes", headers={"Traceparent": traceparent}, timeout=30
    )
    request_id = answer.headers["Openstack-Request-Id"]
    _, trace, span_id = request_id.split("-")
    span = until(
        lambda: [span for span in list(collector.spans) if span.id == span_id], "the request's span"
    )[0]
    expected = ("a1" * 16, "b2" * 8) if honoured else (trace, "")
    assert expected == (span.trace, span.parent)
    assert honoured == (trace == "a1" * 16)


@pytest.fixture(scope="module")
def traced_api(tmp_path_factory):
    with (
        collecting() as collector,
        Fleet(
            tmp_path_factory.mktemp("traced"), conductors=1,
            INGOT_TRACING_ENDPOINT=collector.endpoint,
        ) as fleet,
    ):  # fmt: skip
        yield fleet, collector


class Endless(Handler):
    """A collector that sends its answer for ever."""

    def do_POST(self):
        self.server.bodies.append(b"")
        self.send_response(200)
        self.end_headers()
        try:
            while not self.server.stopped.wait(0.01):
                self.wfile.write(b"x" * 65536)
        except OSError:
            self.server.spans.append("hung up")


class Silent(Handler):
    """A collector that never answers."""

    def do_POST(self):
        self.server.bodies.append(b"")
        self.server.stopped.wait(120)


class Elsewhere(Handler):
    """A collector that redirects to another server."""

    def do_POST(self):
        self.server.bodies.append(b"")
        self.answer(307, headers={"Location": self.server.other})


@pytest.mark.parametrize("kind", [Endless, Silent, Elsewhere, None])
def test_a_bad_collector_delays_and_fails_no_operation(tmp_path, kind):
    with collecting() as other, collecting(kind or Collector) as collector:
        collector.stopped, collector.other = threading.Event(), other.endpoint
        endpoint = collector.endpoint if kind else f"http://127.0.0.1:{free_port()}/v1/traces"
        try:
            with Fleet(tmp_path, conductors=1, INGOT_TRACING_ENDPOINT=endpoint) as fleet:
                nodes = fleet.create_nodes(3)
                for verb, state in VERBS.items():
                    fleet.provision(nodes, verb)
                    fleet.await_state(nodes, state)
                if kind:
                    until(lambda: collector.bodies, "a message")
                if kind is Endless:
                    until(lambda: collector.spans, "the end of the connection")
                assert "Traceback" not in fleet.text()
        finally:
            collector.stopped.set()
        assert [] == other.bodies


def test_a_request_that_is_not_traced_has_a_usual_id(tmp_path):
    with (
        collecting() as collector,
        Fleet(
            tmp_path, conductors=1, INGOT_TRACING_ENDPOINT=collector.endpoint,
            INGOT_TRACING_SAMPLE_RATIO="0",
        ) as fleet,
    ):  # fmt: skip
        (node,) = fleet.create_nodes(1)
        fleet.provision([node], "manage")
        fleet.await_state([node], "manageable")
        assert (
            5 == fleet.operation(node, "manage")["request_id"].removeprefix("req-").count("-") + 1
        )
    assert [] == collector.bodies
