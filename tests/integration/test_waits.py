"""Every wait state: its timeout, its ends, and its explanation by `why`."""

from datetime import timedelta

import pytest
from sqlalchemy import select

from app.db.clock import after
from app.engine import operations, wake
from app.lifecycle.provision_states import Kind, State, of_kind
from app.models import AgentRecord, Conductor, Node, NodeHistory, NodeTrait, Operation
from app.reports import why
from drivers.core.errors import Busy
from drivers.core.steps import Wait
from tests.integration.harness import Acme, Harness, requested
from tests.unit.drivers.machines import image_server, scripted_agent
from workers.conductor import claims
from workers.periodic import reconciler

pytestmark = pytest.mark.parametrize("database", ["sqlite"], indirect=True)

BURN = requested("deploy", "burn")
CRAWL, STROLL = requested("management", "crawl"), requested("management", "stroll")
HOLD = requested("power", "hold")


def in_deployment(step):
    return {**step, "args": {}, "priority": 150}


WAITS = sorted(of_kind(Kind.WAIT))
ALL = sorted(of_kind(Kind.WAIT, Kind.HOLD))
#: wait or hold state -> (previous state, verb, arguments) that lead to it
WAYS = {
    "clean wait": ("manageable", "clean", {"clean_steps": [BURN]}),
    "wait call-back": ("available", "active", {}),
    "inspect wait": ("manageable", "inspect", {}),
    "rescue wait": ("active", "rescue", {"rescue_password": "open sesame"}),
    "service wait": ("active", "service", {"service_steps": [BURN]}),
    "clean hold": ("manageable", "clean", {"clean_steps": [HOLD]}),
    "deploy hold": ("available", "active", {"deploy_steps": [in_deployment(HOLD)]}),
    "service hold": ("active", "service", {"service_steps": [HOLD]}),
}
TIMEOUTS = {
    "clean wait": "CLEAN_CALLBACK_TIMEOUT",
    "wait call-back": "DEPLOY_CALLBACK_TIMEOUT",
    "inspect wait": "INSPECT_WAIT_TIMEOUT",
    "rescue wait": "RESCUE_CALLBACK_TIMEOUT",
    "service wait": "SERVICE_CALLBACK_TIMEOUT",
}
#: state -> function of a step: (previous state, verb, arguments) that run the step in that state
STEPS = {
    "clean wait": lambda step: ("manageable", "clean", {"clean_steps": [step]}),
    "wait call-back": lambda step: ("available", "active", {"deploy_steps": [in_deployment(step)]}),
    "service wait": lambda step: ("active", "service", {"service_steps": [step]}),
}


class Waiting(Harness):
    """Harness that brings nodes into wait states; the deployed image is available."""

    def arrive(self, state, way=None):
        """Create a node, and bring it into a state; return its id."""
        before, verb, arguments = way or WAYS[state]
        node = self.with_agent(
            before, instance_info=self.image, rescue_interface="agent", inspect_interface="agent",
            power_state="power on" if before == "active" else "power off",
        )  # fmt: skip
        assert state == self.do(node, verb, **arguments)
        Acme.did.clear()
        return node

    def expire(self, node):
        """Let the deadline pass, and check for due waits."""
        self.inside.change(Operation, self.last(node).uuid, deadline_at=after(-1))
        return self.look(node)

    def look(self, node):
        """Check for due waits, as a conductor does."""
        reconciler.reconcile(self.inside.runtime, reconciler.Contact(timeout=0))
        self.run()
        return self.inside.read(node)

    def why(self, node):
        with self.inside.runtime.reading() as session:
            return why.explain(session, session.get_one(Node, node))


@pytest.fixture
def make(inside):
    """Factory of harnesses with given settings."""
    made = []
    with scripted_agent() as agent, image_server() as server:
        server.files["/disk.raw"] = bytes(512)

        def begin(**settings):
            inside.environ |= {"INGOT_AGENT_REQUIRE_TLS": "false"}
            inside.environ |= {f"INGOT_CONDUCTOR_{name}": each for name, each in settings.items()}
            view = inside.another()
            made.append(view)
            harness = Waiting(view, agent)
            harness.image = {"image_source": f"{server.url}/disk.raw", "image_checksum": "a" * 64}
            for flow in ("clean", "deploy", "service"):
                harness.offer(flow, ("deploy", "burn", 0, {"abortable": True}))
            return harness

        yield begin
    for view in made:
        view.close()


# Deadlines


@pytest.mark.parametrize("state", WAITS)
@pytest.mark.parametrize("limit", [100, 0])
def test_each_wait_has_a_timeout_setting_and_0_disables_it(make, state, limit):
    harness = make(**{TIMEOUTS[state]: str(limit)})
    operation = harness.last(harness.arrive(state))
    assert bool(limit) == (operation.deadline_at is not None)
    if limit:
        left = operation.deadline_at - operation.created_at
        assert timedelta(seconds=limit - 2) < left < timedelta(seconds=limit + 20)


def test_time_in_the_queue_does_not_shorten_the_timeout_of_an_inspection(make):
    harness = make(INSPECT_WAIT_TIMEOUT="100")
    node = harness.arrive("inspect wait")
    harness.inside.change(Node, node, inspection_started_at=after(-90))
    with harness.inside.runtime.transaction() as session:
        operation = session.get_one(Operation, harness.last(node).id)
        assert wake.resume_operation(session, session.get_one(Node, node), operation)
    harness.run()
    operation = harness.last(node)
    assert "inspect wait" == harness.state(node)
    assert operation.deadline_at - operation.created_at > timedelta(seconds=90)


#: wait state -> state at its end, whether in maintenance, and cleanup steps
EXPIRED = {
    "clean wait": ("clean failed", True, ["clean_up_ramdisk"]),
    "wait call-back": ("deploy failed", False, ["power off", "clean_up_ramdisk"]),
    "inspect wait": ("inspect failed", False, ["power off", "clean_up_ramdisk"]),
    "rescue wait": ("rescue failed", False, ["power off", "clean_up_ramdisk"]),
    "service wait": ("service failed", False, []),
}


@pytest.mark.parametrize("state", WAITS)
def test_an_agent_without_a_heartbeat_ends_each_wait_in_its_failed_state(make, state):
    ends, maintenance, tidied = EXPIRED[state]
    harness = make()
    node = harness.arrive(state)
    target = harness.inside.read(node).target_provision_state
    row = harness.expire(node)
    assert (ends, target, maintenance) == (
        row.provision_state, row.target_provision_state, row.maintenance
    )  # fmt: skip
    assert "Timeout reached" in row.last_error
    assert ("failed", "timeout") == (harness.last(node).state, harness.last(node).error["code"])
    assert tidied == Acme.did
    assert (None, None) == (row.reservation, row.operation_id)


@pytest.mark.parametrize(
    ("state", "ends", "fault"),
    [
        ("clean wait", "clean failed", "clean failure"),
        ("wait call-back", "deploy failed", None),
        ("service wait", "service failed", "service failure"),
    ],
)
def test_a_step_may_have_its_own_deadline_in_each_flow(make, state, ends, fault):
    harness = make(STEP_ATTEMPTS="1")
    node = harness.arrive(state, STEPS[state](STROLL))
    step = next(row for row in harness.steps(node) if row.label == "management.stroll")
    assert timedelta(seconds=5) < step.deadline_at - step.started_at < timedelta(seconds=9)
    # the last poll finds it unchanged
    harness.inside.change_step(harness.last(node).uuid, step.position, remaining=0.0, progress={})
    harness.inside.change(Operation, harness.last(node).uuid, wake_at=after(-9))
    row = harness.look(node)
    assert (ends, fault, fault is not None) == (row.provision_state, row.fault, row.maintenance)
    assert "management.stroll: the machine did not get there in time" in row.last_error


def test_a_step_of_a_busy_machine_is_tried_again_until_its_deadline(make, monkeypatch):
    """A refusal in POST ends by itself, and takes longer than all tries after errors."""
    harness, tries = make(STEP_ATTEMPTS="1"), []

    def be_busy(_interface, _target):
        tries.append(1)
        raise Busy("the machine is in POST")

    monkeypatch.setattr(Acme.interfaces["management"][0], "stroll", be_busy)
    node = harness.arrive("clean wait", STEPS["clean wait"](STROLL))
    assert "clean wait" == harness.poll(node)
    explained = harness.why(node)
    assert ("machine", 2) == (explained.waiting_for, len(tries))
    assert "the last error: the machine is in POST" in explained.summary
    step = next(row for row in harness.steps(node) if row.label == "management.stroll")
    harness.inside.change_step(harness.last(node).uuid, step.position, remaining=0.0)
    assert "clean failed" == harness.poll(node)
    late = (
        "Timeout reached in step management.stroll: the machine did not get there in time; the last"
        " error: the machine is in POST"
    )
    assert late == harness.inside.read(node).last_error


def test_an_error_is_forgotten_once_the_machine_answers_and_noted_once(make, monkeypatch):
    """A BMC may fail every other time: why, and a later timeout, have an error that lasts only."""
    harness, outcomes = make(STEP_ATTEMPTS="1"), []

    def poll(_interface, _target):
        return outcomes.pop(0)

    failed = Wait({"n": 1}, poll_after=0.1, reason="the BMC is silent")
    answered = Wait({"n": 2}, poll_after=0.1)
    outcomes += [answered]
    monkeypatch.setattr(Acme.interfaces["management"][0], "stroll", poll)
    node = harness.arrive("clean wait", STEPS["clean wait"](STROLL))

    def step():
        return next(row for row in harness.steps(node) if row.label == "management.stroll")

    assert None is step().error
    for _ in range(2):
        outcomes += [failed, failed, answered]
        for error in ("the BMC is silent", "the BMC is silent", ""):
            assert "clean wait" == harness.poll(node)
            assert error == step().error
            assert bool(error) == ("the last error: the BMC is silent" in harness.why(node).summary)
    with harness.inside.runtime.reading() as session:
        events = session.scalars(select(NodeHistory.event).where(NodeHistory.node_id == node))
        assert 1 == sum("waits after an error" in event for event in events)
    harness.inside.change_step(harness.last(node).uuid, step().position, remaining=0.0)
    outcomes += [answered]
    assert "clean failed" == harness.poll(node)
    assert "the last error" not in harness.inside.read(node).last_error


def test_why_says_what_a_driver_waits_for(make, monkeypatch):
    harness = make()
    node = harness.arrive("clean wait", STEPS["clean wait"](STROLL))
    step = next(row for row in harness.steps(node) if row.label == "management.stroll")
    progress = {"boot": {"medium": {"waits_for": "virtual medium Cd"}}}
    harness.inside.change_step(harness.last(node).uuid, step.position, progress=progress)
    assert "it waits for virtual medium Cd" in harness.why(node).summary


@pytest.mark.parametrize("state", sorted(of_kind(Kind.HOLD)))
def test_a_hold_has_no_deadline(make, state):
    harness = make()
    assert None is harness.last(harness.arrive(state)).deadline_at


# Aborts


TIDY = ["power off", "clean_up_ramdisk"]
#: wait or hold state -> state at its end, and cleanup steps
ABORTED = {
    "clean wait": ("clean failed", TIDY),
    "wait call-back": ("deploy failed", TIDY),
    "inspect wait": ("inspect failed", TIDY),
    "rescue wait": ("rescue failed", TIDY),
    "service wait": ("active", [*TIDY, "prepare_instance", "power on"]),
    "clean hold": ("clean failed", []),
    "deploy hold": ("deploy failed", ["clean_up_ramdisk"]),
    "service hold": ("active", []),
}


@pytest.mark.parametrize("state", ALL)
def test_each_wait_can_be_aborted(make, state):
    ends, tidied = ABORTED[state]
    harness = make()
    node = harness.arrive(state)
    target = harness.inside.read(node).target_provision_state
    harness.ask(node, "abort")
    assert harness.state(node) in (ends, "service failed"), "it ends at once; the cleanup follows"
    harness.run()
    row = harness.inside.read(node)
    assert (ends, False, None) == (row.provision_state, row.maintenance, row.reservation)
    assert (None if ends == "active" else target) == row.target_provision_state
    assert "By request" in row.last_error
    assert ("aborted", "aborted") == (harness.last(node).state, harness.last(node).error["code"])
    assert tidied == Acme.did
    assert set(row.instance_info) == set(harness.image)


@pytest.mark.parametrize("state", STEPS)
def test_a_step_that_cannot_be_aborted_ends_first_in_each_flow(make, state):
    harness = make()
    node = harness.arrive(state, STEPS[state](CRAWL))
    assert state == harness.do(node, "abort")
    assert ["management.crawl"] == [row.label for row in harness.steps(node) if row.abort_after]
    answer = harness.why(node)
    assert "An abort is requested, and follows this step" in answer.summary
    assert "the operation is aborted" == answer.next
    aborted = {"clean wait": "clean failed", "wait call-back": "deploy failed"}
    assert aborted.get(state, "active") == harness.poll(node)
    assert "crawl" in Acme.did
    assert "aborted" == harness.last(node).state
    assert ("management.crawl", "done") in harness.labels(node)


def test_an_aborted_inspection_may_be_requested_again(make):
    harness = make()
    node = harness.arrive("inspect wait")
    harness.do(node, "abort")
    assert None is harness.inside.read(node).inspection_started_at
    assert "inspect wait" == harness.do(node, "inspect")


@pytest.mark.parametrize("done", [0, 1])
def test_a_conductor_that_dies_during_the_cleanup_of_an_abort_is_replaced(make, done):
    """The node is already in its failed state, and stays reserved until the end of the cleanup."""
    harness = make()
    node = harness.arrive("clean wait")
    harness.ask(node, "abort")
    first = min(row.position for row in harness.steps(node) if row.source == "tidy")
    for position in range(first, first + done + 1):
        operation = harness.last(node)
        attempt = claims.claim(harness.conductor, operation.uuid, operation.fence, position)
        assert "tidy" == attempt.step.source
        if position < first + done:
            assert claims.advance(harness.conductor, attempt, {})
    harness.inside.sent.clear()
    harness.conductor = harness.inside.conductor("c-2")
    harness.inside.change(Conductor, "c-1", heartbeat_at=after(-60))
    harness.inside.runtime.cache.clear()
    reconciler.reconcile(harness.inside.runtime, reconciler.Contact(timeout=0))
    assert ("clean failed", "c-2") == (harness.state(node), harness.inside.read(node).reservation)
    harness.run()
    row = harness.inside.read(node)
    assert (None, False, "aborted") == (row.reservation, row.maintenance, harness.last(node).state)
    assert ["power off", "clean_up_ramdisk"][done:] == Acme.did
    tidy = [row for row in harness.steps(node) if row.source == "tidy"]
    assert {"done"} == {row.state for row in tidy}
    assert 1 == tidy[done].deaths


# Child nodes


@pytest.mark.parametrize(
    ("step", "ends", "complaint"),
    [
        ("burn", "clean failed", "deploy.burn: the driver of child node"),
        ("ask_agent", "clean failed", "waits for an agent, and none is booted on child node"),
    ],
)
def test_a_step_that_needs_the_agent_of_a_child_node_is_refused(make, step, ends, complaint):
    harness = make(STEP_ATTEMPTS="1")
    parent = harness.node()
    harness.with_agent(parent_node=harness.inside.read(parent).uuid)
    interface = "management" if step == "ask_agent" else "deploy"
    wanted = requested(interface, step, execute_on_child_nodes=True)
    assert ends == harness.do(parent, "clean", clean_steps=[wanted])
    assert complaint in harness.inside.read(parent).last_error
    assert [] == Acme.did


def test_steps_of_child_nodes_may_run_without_a_wait(make):
    harness = make(PERMIT_CHILD_NODE_STEP_ASYNC_RESULT="true")
    parent = harness.node(name="parent")
    child = harness.node(name="child", parent_node=harness.inside.read(parent).uuid)
    steps = [{**CRAWL, "execute_on_child_nodes": True}, requested("management", "polish")]
    assert "manageable" == harness.do(parent, "clean", clean_steps=steps)
    assert [("parent", "polish")] == Acme.did
    assert None is harness.inside.read(child).reservation


# Commands to the agent


def test_every_command_about_steps_has_the_nodes_traits(make):
    harness = make()
    node = harness.arrive("clean wait")
    with harness.inside.runtime.transaction() as session:
        session.add_all(
            NodeTrait(node_id=node, trait=each) for each in ("HW_NIC_SRIOV", "CUSTOM_A")
        )
    harness.call(node)
    traits = [params["node"]["traits"] for _, params in harness.agent.received]
    assert [{"objects": [{"trait": "CUSTOM_A"}, {"trait": "HW_NIC_SRIOV"}]}] * 2 == traits


def test_an_agent_that_the_service_does_not_boot_is_only_awaited(make, inside):
    inside.environ["INGOT_AGENT_MANAGE_AGENT_BOOT"] = "false"
    harness = make()
    node = harness.with_agent()
    harness.do(node, "clean", clean_steps=[BURN, requested("power", "reboot")])
    harness.call(node)
    assert "clean wait" == harness.finish(node)
    assert "manageable" == harness.poll(node)
    assert {"power off", "power on"} == set(Acme.did)


# Explanation by `why`


def unsent(harness, node):
    harness.ask(node, "manage")
    harness.inside.change(Operation, harness.last(node).uuid, sent_to=None)


def sent(harness, node):
    harness.ask(node, "manage")


def claimed(harness, node):
    harness.ask(node, "manage")
    operation = harness.last(node)
    claims.claim(harness.conductor, operation.uuid, operation.fence, 0)


def not_admitted(harness, node):
    harness.do(harness.node(), "clean", clean_steps=[CRAWL])
    works(CRAWL)(harness, node)


def child_is_busy(harness, node):
    harness.node(parent_node=harness.inside.read(node).uuid, reservation="c-9")
    harness.inside.change(Node, node, provision_state="manageable")
    step = requested("power", "power_on", execute_on_child_nodes=True)
    harness.do(node, "clean", clean_steps=[step])


def backs_off(harness, node):
    Acme.unreachable = 9
    harness.inside.change(Node, node, provision_state="manageable")
    harness.do(node, "clean", clean_steps=[requested("management", "flicker")])


def works(*steps):
    def begin(harness, node):
        harness.inside.change(Node, node, provision_state="manageable")
        harness.do(node, "clean", clean_steps=list(steps))

    return begin


def in_maintenance(harness, node):
    works(BURN)(harness, node)
    harness.inside.change(Node, node, maintenance=True)


@pytest.mark.parametrize(
    ("begin", "waits_for", "because", "has_time"),
    [
        (lambda *_: None, None, "nothing is under way", False),
        (not_admitted, "turn", "one of 1 slots ([conductor]max_concurrent_clean)", False),
        (unsent, "conductor", "no live conductor serves it", False),
        (sent, "conductor", "a message to its conductor is on its way", False),
        (claimed, "conductor", "conductor c-1 runs it", True),
        (works(BURN), "agent", "it fails at the deadline", True),
        (in_maintenance, "agent", "no deadline ends that while the node is in maintenance", True),
        (works(CRAWL), "machine", "the machine works", True),
        (works(requested("power", "wait", args={"seconds": 9})), "timer", "it waits for the requested time", True),
        (backs_off, "timer", "try 1 of 3 failed (no answer); it is retried", True),
        (child_is_busy, "child", "is reserved by c-9", True),
        (works(HOLD), "operator", "until unhold or abort is requested", False),
        (works(requested("management", "none")), "operator", "no clean step of that name", False),
    ],
)  # fmt: skip
def test_why_names_the_awaited_actor_and_the_deadline_of_every_wait(
    make, begin, waits_for, because, has_time
):
    harness = make(MAX_CONCURRENT_CLEAN="1")
    node = harness.with_agent("enroll") if "agent" == waits_for else harness.node("enroll")
    begin(harness, node)
    explained = harness.why(node)
    assert (waits_for, has_time) == (explained.waiting_for, explained.next_at is not None)
    assert because in explained.summary
    assert explained.next
    assert explained.since is not None or waits_for is None


@pytest.mark.parametrize("state", ALL)
def test_why_names_the_step_and_the_next_event_in_every_wait(make, state):
    harness = make()
    node = harness.arrive(state)
    explained = harness.why(node)
    with harness.inside.runtime.reading() as session:
        operation = operations.of_node(session, node)[0]
        step = operations.current_step(session, operation)
    assert (step.label, operation.uuid) == (explained.step, explained.operation)
    assert ("operator" if "hold" in state else "agent") == explained.waiting_for
    assert f"is {state} on its way to" in explained.summary
    assert State(state) in of_kind(Kind.WAIT, Kind.HOLD)
    assert "abort" in explained.verbs
    assert ("hold" in state) == ("unhold" in explained.verbs)
    assert (state in ("wait call-back", "rescue wait", "service wait")) == (
        "deleted" in explained.verbs
    )


def test_why_reports_the_retry_of_a_command_to_a_busy_agent(make):
    harness = make()
    node = harness.arrive("clean wait")
    harness.agent.refusal = (409, "Agent is busy")
    harness.call(node)
    explained = harness.why(node)
    assert ("agent", True) == (explained.waiting_for, explained.next_at is not None)
    assert "busy or unreachable" in explained.summary
    with harness.inside.runtime.reading() as session:
        assert session.get(AgentRecord, node).url
    step = next(row for row in harness.steps(node) if row.collects)
    operation = harness.last(node).uuid
    harness.inside.change_step(operation, step.position, progress={"power": {"ordered": True}})
    assert "machine" == harness.why(node).waiting_for
    harness.inside.change_step(operation, step.position, progress={}, remaining=0.0)
    assert "clean failed" == harness.poll(node)
    late = "in step deploy.await_clean_agent: its agent was busy, or did not answer"
    busy = "; the last error: the agent of node {} answered 409: Agent is busy"
    failed = harness.inside.read(node)
    assert f"Timeout reached {late}{busy.format(failed.uuid)}" == failed.last_error
    assert "Agent is busy" in explained.summary
    with harness.inside.runtime.reading() as session:
        entries = session.scalars(
            select(NodeHistory.event).where(NodeHistory.node_id == node)
        ).all()
    waits = [event for event in entries if event.startswith("Step deploy.await_clean_agent waits")]
    assert [True] == ["Agent is busy" in event for event in waits]
