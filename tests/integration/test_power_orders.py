"""Power orders with an unknown effect: on the node, in the power sync, and after an abort."""

import pytest
from sqlalchemy import select

from app.engine import operations, pending_power, power
from app.identity.caller import Caller
from app.models import Node, Operation, OperationState, OperationStep
from drivers.core.interface_kinds import POWER_OFF, POWER_ON
from drivers.core.kinds.power_pursuit import PENDING
from drivers.simulator.simulator import running
from tests.integration.harness import Harness
from tests.integration.reconciler.conftest import reconcile
from tests.integration.test_aborts import CRAWL, STROLL, held_up
from tests.integration.test_power_sync import WAYS
from tests.support.fleet import until
from tests.support.power_bmc import CUT, rude_bmc
from tests.unit.drivers.machines import image_server
from workers.periodic import power_sync

pytestmark = pytest.mark.parametrize("database", ["sqlite"], indirect=True)


@pytest.fixture
def harness(inside):
    inside.environ |= {"INGOT_AGENT_REQUIRE_TLS": "false"}
    view = inside.another()
    yield Harness(view)
    view.close()


@pytest.fixture
def bmc():
    with rude_bmc() as bmc:
        yield bmc


def managed(harness, bmc, recorded, **columns):
    """Create a manageable node of a BMC; recorded: its power state in the database."""
    node = harness.node(driver_info=bmc.driver_info(), power_state=recorded, **columns)
    harness.inside.change(Node, node, driver="redfish")
    return node


def pending(state, sweeps=0):
    return {"driver_internal_info": {PENDING: {"state": state, "sweeps": sweeps}}}


def sweep(harness, times=1):
    for _ in range(times):
        power_sync.sync(harness.inside.runtime, "c-1")


def request(harness, node, state):
    with harness.inside.runtime.transaction() as session:
        power.request(session, operations.lock(session, node), state, None, Caller())
    harness.run()


def finish(harness, node):
    """Poll the node's operation until it ends; return its state."""
    for _ in range(60):
        if harness.last(node).state != "waiting":
            break
        harness.poll(node)
    return harness.last(node).state


def targets_of(harness, node):
    """Return the requested power states of a node's power operations."""
    with harness.inside.runtime.reading() as session:
        rows = session.scalars(select(Operation).filter_by(node_id=node, kind="power"))
        return [row.arguments["target"] for row in rows]


def power_of(harness, node):
    row = harness.inside.read(node)
    return row.power_state, row.driver_internal_info.get(PENDING)


@pytest.mark.parametrize("state", [None, "Reset", "Unknown", "PoweringOn", "PoweringOff"])
def test_a_machine_in_transition_is_neither_a_failure_nor_a_difference(harness, bmc, state):
    node = managed(harness, bmc, POWER_ON)
    bmc.power = "On"
    sweep(harness)
    bmc.readings = [state] * 5
    sweep(harness, 5)
    row = harness.inside.read(node)
    assert (POWER_ON, 0, False) == (row.power_state, row.power_sync_failures, row.maintenance)
    assert ([], []) == (bmc.orders, targets_of(harness, node))


def test_a_taken_order_that_cannot_be_read_is_not_undone_by_the_power_sync(harness, bmc):
    bmc.power = "On"
    node = managed(harness, bmc, POWER_ON)
    sweep(harness)
    bmc.readings = ["On"] * 4

    def lost(bmc, _kind):
        bmc.readings = [CUT] * 500

    bmc.judge = lost
    request(harness, node, POWER_OFF)
    assert "failed" == finish(harness, node)
    row = harness.inside.read(node)
    assert "the BMC took the order 'power off', and BMC" in row.last_error
    assert "did not answer" in row.last_error
    assert (POWER_ON, {"state": POWER_OFF, "sweeps": 0}) == power_of(harness, node)
    bmc.readings = [None, "PoweringOff"]
    other = harness.inside.another()  # its circuit breaker is closed
    for _ in range(3):
        power_sync.sync(other.runtime, "c-1")
    assert [] == other.messages
    other.close()
    assert (POWER_OFF, None) == power_of(harness, node)
    assert (["ForceOff"], [POWER_OFF]) == (bmc.orders, targets_of(harness, node))


@pytest.mark.parametrize("force", [True, False])
def test_a_pending_order_without_effect_is_corrected_to_the_ordered_state(inside, bmc, force):
    inside.environ |= {
        "INGOT_CONDUCTOR_FORCE_POWER_STATE_DURING_SYNC": str(force),
    }  # fmt: skip
    view = inside.another()
    harness = Harness(view)
    bmc.power = "On"
    node = managed(harness, bmc, POWER_ON, **pending(POWER_OFF))
    sweep(harness)
    harness.run()
    assert (POWER_ON, {"state": POWER_OFF, "sweeps": 1}) == power_of(harness, node)
    assert [] == bmc.orders
    sweep(harness)
    harness.run()
    if force:
        assert "succeeded" == finish(harness, node)
    assert (POWER_OFF if force else POWER_ON, None) == power_of(harness, node)
    assert (["ForceOff"] if force else []) == bmc.orders
    view.close()


@pytest.mark.parametrize("ordered", [POWER_ON, POWER_OFF])
@pytest.mark.parametrize("recorded", [POWER_ON, POWER_OFF])
def test_a_pending_order_that_took_effect_is_recorded_without_an_order(
    harness, bmc, ordered, recorded
):
    bmc.power = "On" if ordered == POWER_ON else "Off"
    node = managed(harness, bmc, recorded, **pending(ordered))
    sweep(harness)
    assert (ordered, None) == power_of(harness, node)
    assert ([], []) == (bmc.orders, targets_of(harness, node))


def test_after_an_order_without_a_record_the_power_sync_records_what_it_reads(harness, bmc):
    bmc.power = "On"
    node = managed(harness, bmc, POWER_OFF, **pending(None))
    sweep(harness)
    assert POWER_OFF == power_of(harness, node)[0]
    sweep(harness)
    assert (POWER_ON, None) == power_of(harness, node)
    assert ([], []) == (bmc.orders, targets_of(harness, node))


def test_a_flapping_state_is_not_recorded_while_an_order_is_pending(harness, bmc):
    node = managed(harness, bmc, POWER_ON, **pending(POWER_OFF))
    sweep(harness)  # reads the documents of the BMC
    harness.inside.change(Node, node, power_state=POWER_ON, **pending(POWER_OFF))
    bmc.readings = ["On", None, "Off"]
    for expected in (POWER_ON, POWER_ON, POWER_OFF):
        sweep(harness)
        assert expected == power_of(harness, node)[0]
    assert [] == bmc.orders


@pytest.mark.parametrize("state", ["clean wait", "rescue wait", "inspect wait"])
def test_an_abort_just_after_power_on_switches_the_machine_off_for_good(inside, state):
    """The BMC still shows off then; without another order, the machine would start a moment later."""
    inside.environ |= {"INGOT_AGENT_REQUIRE_TLS": "false"}
    with running(machines=1, power_on_seconds=600, agent_never_boots=True) as simulator:
        machine = simulator.machines[0]
        view = inside.another()
        harness = Harness(view)
        with image_server() as images:
            images.files["/disk.raw"] = bytes(512)
            origin, verb, arguments = WAYS[state]
            iso = {
                f"{kind}_iso": "http://127.0.0.1:9/iso" for kind in ("deploy", "rescue", "inspect")
            }
            node = harness.with_agent(
                origin, driver_info=machine.driver_info() | iso,
                instance_info={
                    "image_source": f"{images.url}/disk.raw", "image_checksum": "a" * 64,
                },
                rescue_interface="agent", inspect_interface="agent", power_state="power off",
            )  # fmt: skip
            view.change(Node, node, driver="redfish")
            assert state == harness.do(node, verb, **arguments)
            row = view.read(node)
            assert {"state": POWER_ON, "sweeps": 0} == row.driver_internal_info[PENDING]
            assert ("Off", "On") == (machine.power, simulator.next_power_state(0))
            harness.do(node, "abort")
            until(lambda: finish(harness, node) == "aborted")
            assert ("Off", 0, "") == (machine.power, machine.boots, simulator.next_power_state(0))
            assert (POWER_OFF, None) == power_of(harness, node)
        view.close()


def test_an_abort_of_a_running_attempt_notes_that_an_order_may_be_pending(harness, monkeypatch):
    node = harness.node()
    harness.ask(node, "clean", clean_steps=[STROLL])
    with held_up(harness, monkeypatch, node, "stroll"):
        harness.ask(node, "abort")
    assert {"state": None, "sweeps": 0} == power_of(harness, node)[1]


def test_an_abort_of_a_waiting_step_without_an_order_notes_nothing(harness):
    node = harness.node()
    harness.do(node, "clean", clean_steps=[STROLL])
    harness.do(node, "abort")
    assert None is power_of(harness, node)[1]


def test_a_step_given_up_after_deaths_notes_that_an_order_may_be_pending(harness, monkeypatch):
    node = harness.node()
    harness.ask(node, "clean", clean_steps=[CRAWL])
    for _ in range(harness.inside.settings.conductor.max_step_deaths):
        with held_up(harness, monkeypatch, node, "crawl"):
            operation = harness.last(node).uuid
            harness.inside.change(Operation, operation, claimed_by="a dead incarnation")
            assert {"taken_over": 1} == reconcile(harness.inside)
            messages = list(harness.inside.messages)
            harness.inside.messages.clear()
        harness.inside.messages.extend(messages)
    assert "failed" == harness.last(node).state
    assert {"state": None, "sweeps": 0} == power_of(harness, node)[1]


def test_the_note_about_a_step_on_a_child_node_is_the_childs(harness):
    parent, child = harness.node(), harness.node()
    step = OperationStep(child=harness.inside.read(child).uuid, deaths=1)
    with harness.inside.runtime.transaction() as session:
        node = operations.lock(session, parent)
        pending_power.note(session, node, Operation(state=OperationState.QUEUED), step)
    assert {"state": None, "sweeps": 0} == power_of(harness, child)[1]
    assert None is power_of(harness, parent)[1]


def test_a_verification_survives_a_lost_read_and_unsettled_states(harness, bmc):
    node = harness.node("enroll", driver_info=bmc.driver_info())
    harness.inside.change(Node, node, driver="redfish")
    bmc.readings = [CUT]
    bmc.power = "On"
    assert "manageable" == harness.do(node, "manage")
    bmc.readings = [None] * 4
    other = harness.node("enroll", driver_info=bmc.driver_info())
    harness.inside.change(Node, other, driver="redfish")
    harness.do(other, "manage")
    assert "succeeded" == finish(harness, other)
    assert ("manageable", POWER_ON) == (harness.state(other), power_of(harness, other)[0])
