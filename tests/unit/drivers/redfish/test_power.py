"""Power orders to BMCs over HTTP that refuse, lose and delay them."""

from dataclasses import replace

import pytest

from drivers.core.bmc import Bmcs
from drivers.core.errors import (
    Busy,
    FailureCode,
    HardwareError,
    LoginRefused,
    NotSupported,
    Refused,
    Unconfirmed,
    Unreachable,
)
from drivers.core.interface_kinds import POWER_OFF, POWER_ON, REBOOT, SOFT_OFF
from drivers.core.steps import Done, Failed, Wait
from tests.support.power_bmc import CUT, rude_bmc
from tests.unit.drivers.machines import new_registry, target
from tests.unit.drivers.redfish.test_redfish import swept

BOTH = {POWER_ON: "On", POWER_OFF: "Off"}


def node_of(bmc, **fields):
    return target(
        "redfish",
        registry=new_registry(Bmcs(trip_after=1000)),
        driver_info=bmc.driver_info(),
        **fields,
    )


def known(bmc, *states, **fields):
    """Return a node that has read its BMC's documents; `states`: the next power states."""
    node = node_of(bmc, **fields)
    node.driver.power.get_power_state(node)
    bmc.readings = list(states)
    return node


@pytest.mark.parametrize("lost", [3, 1])
def test_one_layer_repeats_a_read_so_that_a_step_counts_a_silent_bmc_once(lost):
    with rude_bmc() as bmc:
        node = known(bmc, *[CUT] * lost)
        (state,) = node.driver.power.bmcs._bmcs.values()
        if lost == 1:
            assert Done() == node.driver.power.read(node)
        else:
            with pytest.raises(Unreachable):
                node.driver.power.read(node)
        assert (lost // 3, []) == (state.failures, bmc.readings)


def change(bmc, state, node=None, budget=60.0, on_poll=lambda polls: None):
    """Run a change of the power state; return its outcome or its error."""
    node = node or node_of(bmc)
    for polls in range(60):
        on_poll(polls)
        try:
            outcome = node.driver.power.change(node, state)
        except HardwareError as error:
            return error
        if not isinstance(outcome, Wait):
            return outcome
        internal = {**node.driver_internal_info, **node.reports.get("driver_internal_info", {})}
        node = replace(
            node, progress=dict(outcome.progress), reports={}, driver_internal_info=internal
        )
        if budget <= 0:
            return Failed(outcome.reason or "", FailureCode.TIMEOUT)
        budget -= outcome.poll_after
    raise AssertionError("it polls for ever")


@pytest.mark.vendor("Dell", "power")
@pytest.mark.vendor("HPE", "power")
@pytest.mark.parametrize(
    "refusal",
    [
        (409, False, "Base.1.18.ActionParameterValueConflict"),
        (400, False, "iLO.2.14.UnableToModifyDuringSystemPOST"),
        (400, False),
        (503, False),
        (429, False),
        (412, False),
        (423, False),
    ],
)
@pytest.mark.parametrize("times", [1, 3])
def test_a_refusal_in_transition_is_tried_again(refusal, times):
    with rude_bmc(answers=[refusal] * times) as bmc:
        assert Done() == change(bmc, POWER_ON)
        assert (["On"] * (times + 1), "On") == (bmc.orders, bmc.power)


def test_a_reboot_survives_conflicts_after_its_own_power_off():
    with rude_bmc(power="On") as bmc:

        def judge(bmc, kind):
            early = kind == "On" and bmc.orders.count("On") < 4
            return (409, False, "Base.1.18.ActionParameterValueConflict") if early else None

        bmc.judge = judge
        assert Done() == change(bmc, REBOOT)
        assert (["ForceOff", *["On"] * 5], "On") == (bmc.orders, bmc.power)


@pytest.mark.parametrize("goal", [POWER_ON, POWER_OFF])
@pytest.mark.parametrize("status", [400, 403, 405, 409, 500, 501, 503])
def test_a_refusal_because_the_machine_is_there_already_is_success(goal, status):
    other = BOTH[POWER_OFF if goal == POWER_ON else POWER_ON]
    with rude_bmc(power=BOTH[goal], answers=[(status, False)]) as bmc:
        node = known(bmc, other)
        assert Done() == change(bmc, goal, node)
        assert (1, {"power_state": goal}) == (len(bmc.orders), _power(node.reports))


def _power(reports):
    return {name: value for name, value in reports.items() if name not in ("agent", "boot_mode")}


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        ((403, False, "Base.1.8.InsufficientPrivilege"), Refused),
        ((400, False, "Base.1.8.ActionParameterMissing"), Refused),
        ((405, False), Refused),
        ((501, False), Refused),
    ],
)
def test_a_final_refusal_fails_at_once_with_the_words_of_the_bmc(answer, error):
    with rude_bmc(answers=[answer]) as bmc:
        outcome = change(bmc, POWER_ON)
        assert error.code == outcome.code
        assert f"refused: {answer[0]}: On is refused" in outcome.reason
        assert (["On"], "Off") == (bmc.orders, bmc.power)


@pytest.mark.parametrize("state", [None, "Reset", "Unknown", "PoweringOn", "PoweringOff", "?", 5])
def test_unsettled_states_are_waited_through(state):
    for goal, reading in BOTH.items():
        with rude_bmc(power=reading) as bmc:
            node = known(bmc, *[state] * 5)
            assert (Done(), []) == (change(bmc, goal, node), bmc.orders)
        with rude_bmc(power="On" if reading == "Off" else "Off") as bmc:
            node = known(bmc, bmc.power, *[state] * 4)
            assert Done() == change(bmc, goal, node)
            assert (1, reading) == (len(bmc.orders), bmc.power)


@pytest.mark.parametrize("cuts", [1, 2, 5])
def test_lost_reads_after_a_taken_order_do_not_fail_it(cuts):
    with rude_bmc(power="On") as bmc:
        node = known(bmc, "On", *[CUT] * cuts)
        assert (Done(), ["ForceOff"]) == (change(bmc, POWER_OFF, node), bmc.orders)


def test_one_lost_read_before_an_order_does_not_fail_it():
    with rude_bmc(power="On", readings=[CUT]) as bmc:
        assert (Done(), ["ForceOff"]) == (change(bmc, POWER_OFF), bmc.orders)
    with rude_bmc(power="On", readings=[CUT]) as bmc:
        node = node_of(bmc)
        assert (Done(), POWER_ON) == (node.driver.power.read(node), node.reports["power_state"])


@pytest.mark.parametrize("lost", [CUT, 500, 502, 504])
def test_a_lost_answer_is_settled_by_reading(lost):
    with rude_bmc(answers=[(lost, True)]) as bmc:
        assert (Done(), ["On"]) == (change(bmc, POWER_ON), bmc.orders)
    with rude_bmc(answers=[(lost, False)]) as bmc:  # sent again after ten seconds without effect
        assert (Done(), ["On", "On"]) == (change(bmc, POWER_ON), bmc.orders)
    with rude_bmc(answers=[(lost, False)]) as bmc:  # these do not fit into the time

        def slow(polls):
            if polls == 5:
                bmc.power = "On"

        assert (Done(), ["On"]) == (change(bmc, POWER_ON, on_poll=slow), bmc.orders)


def test_a_lost_reset_is_proven_by_the_time_of_the_last_one():
    with rude_bmc(power="On", answers=[(CUT, True)], last_reset="2026-11-26T10:00:00Z") as bmc:

        def reset(polls):
            if bmc.orders:
                bmc.last_reset = "2026-11-26T10:05:00Z"

        node = node_of(bmc, disable_power_off=True)
        assert Done() == change(bmc, REBOOT, node, on_poll=reset)
        assert ["ForceRestart"] == bmc.orders
    with rude_bmc(power="On", answers=[(CUT, True)]) as bmc:
        outcome = change(bmc, REBOOT, node_of(bmc, disable_power_off=True))
        assert (FailureCode.UNCONFIRMED, ["ForceRestart"]) == (outcome.code, bmc.orders)


@pytest.mark.parametrize(
    ("allowed", "order", "reset_type"),
    [
        (["ForceOn", "ForceOff"], POWER_ON, "ForceOn"),
        (["GracefulShutdown", "On"], POWER_OFF, "GracefulShutdown"),
        (["PushPowerButton"], POWER_ON, "PushPowerButton"),
        (["PushPowerButton"], SOFT_OFF, "PushPowerButton"),
        (None, POWER_OFF, "ForceOff"),
        ([], POWER_ON, "On"),
        (["PowerCycle"], REBOOT, "PowerCycle"),
    ],
)
def test_the_reset_type_is_one_that_the_bmc_lists(allowed, order, reset_type, monkeypatch):
    monkeypatch.setitem(_effects(), "PushPowerButton", "On")
    monkeypatch.setitem(_effects(), "PowerCycle", "On")
    with rude_bmc(allowed=allowed, power="Off" if order == POWER_ON else "On") as bmc:
        node = node_of(bmc)
        node.driver.power.get_power_state(node)
        node.driver.power.order(node, order)
        assert [reset_type] == bmc.orders


def _effects():
    from tests.support import power_bmc

    return power_bmc.EFFECTS


@pytest.mark.parametrize(
    "name", ["Base.1.8.ActionParameterNotSupported", "Base.1.8.1.ActionParameterUnknown"]
)
def test_a_listed_reset_type_that_the_bmc_lacks_is_replaced_by_an_equivalent_one(name):
    lacking = (400, False, name)
    with rude_bmc(allowed=["On", "ForceOn"], answers=[lacking]) as bmc:
        assert (Done(), ["On", "ForceOn"]) == (change(bmc, POWER_ON), bmc.orders)
    with rude_bmc(answers=[lacking]) as bmc:
        assert (NotSupported.code, ["On"]) == (change(bmc, POWER_ON).code, bmc.orders)


def test_the_power_button_is_not_pressed_in_another_state_as_it_toggles():
    with rude_bmc(allowed=["PushPowerButton"], power="On") as bmc:
        node = node_of(bmc)
        with pytest.raises(Busy, match="only the power button for 'power on', and shows 'On'"):
            node.driver.power.order(node, POWER_ON)
        assert [] == bmc.orders


def test_the_error_names_what_a_bmc_offers():
    with rude_bmc(allowed=["Nmi", "On"], power="On") as bmc:
        outcome = change(bmc, POWER_OFF)
    assert NotSupported.code == outcome.code
    assert "needs ForceOff or GracefulShutdown; it offers Nmi, On" in outcome.reason


def test_a_wrong_password_fails_at_once():
    with rude_bmc(answers=[(401, False)]) as bmc:
        assert (LoginRefused.code, ["On"]) == (change(bmc, POWER_ON).code, bmc.orders)


def test_a_server_error_is_unconfirmed_and_names_its_words():
    with rude_bmc(answers=[(500, False)]) as bmc:
        node = node_of(bmc)
        with pytest.raises(Unconfirmed, match="failed: 500: On is refused"):
            node.driver.power.order(node, POWER_ON)


def test_a_sweep_of_a_machine_in_transition_is_no_error():
    with rude_bmc() as bmc:
        node = known(bmc, "PoweringOff", None)
        assert [None, None, POWER_OFF] == [swept(node)[node.uuid] for _ in range(3)]
