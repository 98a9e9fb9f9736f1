"""Power through the running agent."""

from dataclasses import replace

import pytest

from drivers.agent import client
from drivers.core.errors import (
    FailureCode,
    InvalidDriverInfo,
    NotSupported,
    Unconfirmed,
    Unexpected,
    Unreachable,
)
from drivers.core.interface_kinds import POWER_OFF, POWER_ON, REBOOT, SOFT_REBOOT
from drivers.core.reserved import power_off
from drivers.core.steps import Done, Failed, Wait
from tests.unit.drivers.machines import scripted_agent, target, with_option

FAST = with_option("deploy", fast_track=True, fast_track_timeout=300)
RESTART = "standby.run_image"


@pytest.fixture
def agent():
    with scripted_agent() as scripted:
        yield scripted


def node(agent, silent_for=10.0, options=FAST, **fields):
    heard = replace(agent.seen(), silent_for=silent_for) if agent else None
    agent_field = {} if heard is None else {"agent": heard}
    return target(
        "manual-management", options=options, power_state=POWER_ON, **agent_field, **fields
    )


def after(machine, outcome, **fields):
    """Return the target of the next call."""
    assert isinstance(outcome, Wait)
    return replace(machine, progress=dict(outcome.progress), reports={}, **fields)


def test_it_is_the_default_of_machines_without_a_bmc(agent):
    machine = node(agent)
    assert "agent" == machine.driver.power.name
    assert "noop" == machine.driver.management.name
    machine.driver.power.validate(machine)
    assert POWER_ON == machine.driver.power.get_power_state(machine)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"options": with_option("deploy", fast_track=False)}, "needs fast track"),
        ({"driver_info": {"fast_track": "false"}}, "needs fast track"),
        ({"silent_for": 301}, "needs a running agent"),
        ({"silent_for": None}, "needs a running agent"),
    ],
)
def test_without_fast_track_or_a_running_agent_it_is_refused(agent, fields, words):
    machine = node(agent, **fields)
    with pytest.raises(InvalidDriverInfo, match=words):
        machine.driver.power.validate(machine)


def test_fast_track_may_be_that_of_the_node(agent):
    machine = node(
        agent, options=with_option("deploy", fast_track=False), driver_info={"fast_track": True}
    )
    machine.driver.power.validate(machine)


def test_the_power_of_a_machine_with_a_silent_agent_is_unknown():
    machine = node(None)
    with pytest.raises(Unreachable, match="its power is unknown"):
        machine.driver.power.get_power_state(machine)


def ordered(machine, state=REBOOT):
    """Return the target of the call after the order, and its outcome."""
    power = machine.driver.power
    machine = after(machine, power.change(machine, state))
    outcome = power.change(machine, state)
    return after(machine, outcome), outcome


def ended(machine, state=REBOOT, calls=30):
    """Call the change until it ends."""
    for _ in range(calls):
        outcome = machine.driver.power.change(machine, state)
        if not isinstance(outcome, Wait):
            return outcome
        machine = after(machine, outcome)
    return outcome


@pytest.mark.parametrize("state", [REBOOT, SOFT_REBOOT])
def test_a_restart_has_happened_when_another_agent_answers(agent, state):
    machine, _ = ordered(node(agent), state)
    power = machine.driver.power
    agent.finish()
    outcome = power.change(machine, state)  # the old agent still answers
    assert [(RESTART, {})] == agent.received
    agent.restart()
    machine = after(machine, outcome)
    assert Done() == power.change(machine, state)
    assert {"agent": None, "power_state": POWER_ON} == machine.reports
    assert 1 == len(agent.received)


def test_a_restart_has_happened_when_the_agent_is_gone(agent):
    machine = node(agent)
    machine = after(machine, machine.driver.power.power_on(machine))
    outcome = machine.driver.power.power_on(machine)
    silent_agent = replace(machine.agent, url="http://127.0.0.1:9")
    machine = after(machine, outcome, agent=silent_agent)
    assert Done() == machine.driver.power.power_on(machine)
    assert None is machine.reports["agent"]


def test_a_restart_that_the_agent_fails_is_a_failure(agent):
    machine, _ = ordered(node(agent))
    agent.fail("no systemctl")
    outcome = machine.driver.power.change(machine, REBOOT)
    assert isinstance(outcome, Failed)
    assert "no systemctl" in outcome.reason


def used(agent):
    """Have the agent run a command before."""
    agent.post("clean.get_clean_steps", {}, wait=True)
    agent.commands[-1]["id"] = "id-0"
    agent.received.clear()


def lose(monkeypatch, answer, *, arrives):
    """Lose the answer of the next order."""
    run = client.run

    def lost(target, name, params, **options):
        if arrives:
            run(target, name, params, **options)
        monkeypatch.setattr(client, "run", run)
        raise answer

    monkeypatch.setattr(client, "run", lost)


@pytest.mark.parametrize("is_used", [True, False])
@pytest.mark.parametrize("answer", [Unconfirmed("lost"), Unexpected("500")], ids=repr)
def test_a_command_that_has_arrived_is_not_repeated_though_its_answer_was_lost(
    agent, monkeypatch, answer, is_used
):
    if is_used:
        used(agent)
    lose(monkeypatch, answer, arrives=True)
    machine, outcome = ordered(node(agent))
    assert str(answer) == outcome.reason
    machine = after(machine, machine.driver.power.change(machine, REBOOT))
    assert isinstance(machine.driver.power.change(machine, REBOOT), Wait)
    agent.restart()
    assert Done() == ended(machine)
    assert [(RESTART, {})] == agent.received


def test_a_lost_command_that_the_agent_fails_is_a_failure(agent, monkeypatch):
    used(agent)
    lose(monkeypatch, Unconfirmed("lost"), arrives=True)
    machine, _ = ordered(node(agent))
    agent.fail("no systemctl")
    assert "no systemctl" in ended(machine).reason


def test_a_command_that_has_not_arrived_is_sent_again_to_the_same_agent(agent, monkeypatch):
    used(agent)
    lose(monkeypatch, Unconfirmed("lost"), arrives=False)
    machine, _ = ordered(node(agent))
    for _ in range(10):
        if agent.received:
            break
        machine = after(machine, machine.driver.power.change(machine, REBOOT))
    assert [(RESTART, {})] == agent.received
    agent.finish()
    agent.restart()
    assert Done() == ended(machine)
    assert 1 == len(agent.received)


def test_a_lost_command_has_arrived_if_another_agent_answers(agent, monkeypatch):
    used(agent)
    lose(monkeypatch, Unconfirmed("lost"), arrives=True)
    machine, _ = ordered(node(agent))
    agent.restart()
    assert Done() == ended(machine)
    assert 1 == len(agent.received)


def test_a_lost_command_that_no_list_can_settle_is_not_confirmed(agent, monkeypatch):
    """An agent without commands may be the one before the restart, or the one after it."""
    lose(monkeypatch, Unconfirmed("lost"), arrives=False)
    machine, _ = ordered(node(agent))
    outcome = ended(machine)
    assert (FailureCode.UNCONFIRMED, []) == (outcome.code, agent.received)
    assert "was ordered, not confirmed" in outcome.reason


def test_a_silent_agent_has_not_restarted_at_once_after_a_lost_command(agent, monkeypatch):
    used(agent)
    lose(monkeypatch, Unconfirmed("lost"), arrives=True)
    machine, _ = ordered(node(agent))
    silent = replace(machine, agent=replace(machine.agent, url="http://127.0.0.1:9"))
    outcome = machine.driver.power.change(silent, REBOOT)
    assert isinstance(outcome, Wait)
    assert "did not answer" in outcome.reason
    assert Done() == ended(after(silent, outcome))


@pytest.mark.parametrize("is_sent", [True, False])
def test_a_crash_at_the_order_is_settled_by_the_agents_list(agent, is_sent):
    used(agent)
    machine = node(agent)
    machine = after(machine, machine.driver.power.change(machine, REBOOT))
    if is_sent:
        machine.driver.power.change(machine, REBOOT)
    machine = replace(machine, resumed=True, crashes=machine.crashes + 1)
    for _ in range(6):
        machine = after(machine, machine.driver.power.change(machine, REBOOT))
    assert [(RESTART, {})] == agent.received


@pytest.mark.parametrize("progress", [{"ordered": True, "command": "id-1"}, {"ordered": True}])
def test_the_progress_of_the_previous_release_sends_nothing(agent, progress):
    used(agent)
    agent.post(RESTART, {}, wait=False)
    machine = replace(node(agent), progress=progress)
    machine = after(machine, machine.driver.power.change(machine, REBOOT))
    agent.restart()
    ended(machine)
    assert 1 == len(agent.received)


@pytest.mark.parametrize(
    "commands", [[{"id": ["a"]}], [{}], [{"id": {"a": 1}, "command_name": 5}]], ids=repr
)
def test_a_malformed_list_of_an_agent_ends_in_a_typed_outcome(agent, monkeypatch, commands):
    agent.commands = commands
    lose(monkeypatch, Unconfirmed("lost"), arrives=False)
    machine, _ = ordered(node(agent))
    assert isinstance(ended(machine, calls=4), Wait | Failed)


def test_an_unreachable_agent_gets_no_command(agent):
    machine = node(agent)
    machine = replace(machine, agent=replace(machine.agent, url="http://127.0.0.1:9"))
    with pytest.raises(Unreachable):
        machine.driver.power.change(machine, REBOOT)
    progress = {"before": ["id-1"], "crashes": 0}
    with pytest.raises(Unreachable) as raised:
        machine.driver.power.change(replace(machine, progress=progress), REBOOT)
    assert Unreachable is type(raised.value)


def test_it_switches_nothing_off_and_says_so(agent):
    machine = node(agent)
    power = machine.driver.power
    assert Done() == power.power_off(machine)  # a frame step: the restart follows
    for state in (POWER_OFF, POWER_ON):
        assert state not in power.supported
        with pytest.raises(NotSupported, match="only a restart"):
            ordered(machine, state)
    with pytest.raises(NotSupported, match="cannot switch the machine off"):
        power_off(machine, ramdisk=False)
    assert [] == agent.received


def test_the_end_of_a_deployment_leaves_the_agent_to_restart_the_machine(agent):
    machine = node(agent, interfaces={"deploy": "custom-agent", "boot": "ipxe"})
    assert None is machine.driver.deploy._end_agent(machine)
    assert [("standby.sync", {})] == agent.received
