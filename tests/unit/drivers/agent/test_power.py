"""Power through the running agent."""

from dataclasses import replace

import pytest

from drivers.agent import client
from drivers.core.errors import InvalidDriverInfo, NotSupported, Unconfirmed, Unreachable
from drivers.core.kinds import POWER_OFF, POWER_ON, REBOOT, SOFT_REBOOT
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
    known = {} if heard is None else {"agent": heard}
    return target("manual-management", options=options, power_state=POWER_ON, **known, **fields)


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


@pytest.mark.parametrize("state", [REBOOT, SOFT_REBOOT])
def test_a_restart_has_happened_when_another_agent_answers(agent, state):
    machine = node(agent)
    power = machine.driver.power
    outcome = power.change(machine, state)
    agent.finish()
    outcome = power.change(after(machine, outcome), state)  # the old agent still answers
    assert [(RESTART, {})] == agent.received
    agent.restart()
    machine = after(machine, outcome)
    assert Done() == power.change(machine, state)
    assert {"agent": None, "power_state": POWER_ON} == machine.reports
    assert 1 == len(agent.received)


def test_a_restart_has_happened_when_the_agent_is_gone(agent):
    machine = node(agent)
    outcome = machine.driver.power.power_on(machine)
    gone = replace(machine.agent, url="http://127.0.0.1:9")
    machine = after(machine, outcome, agent=gone)
    assert Done() == machine.driver.power.power_on(machine)
    assert None is machine.reports["agent"]


def test_a_restart_that_the_agent_fails_is_a_failure(agent):
    machine = node(agent)
    outcome = machine.driver.power.change(machine, REBOOT)
    agent.fail("no systemctl")
    outcome = machine.driver.power.change(after(machine, outcome), REBOOT)
    assert isinstance(outcome, Failed)
    assert "no systemctl" in outcome.reason


def test_a_command_whose_answer_was_lost_is_not_repeated(agent, monkeypatch):
    machine = node(agent)

    def lost(*args, **kwargs):
        agent.post(RESTART, {}, wait=False)
        raise Unconfirmed("lost")

    with monkeypatch.context() as patch:
        patch.setattr(client, "run", lost)
        outcome = machine.driver.power.change(machine, REBOOT)
    assert {"ordered": True} == outcome.progress
    outcome = machine.driver.power.change(after(machine, outcome), REBOOT)
    agent.restart()
    assert Done() == machine.driver.power.change(after(machine, outcome), REBOOT)
    assert [(RESTART, {})] == agent.received


def test_a_command_that_was_sent_before_a_crash_is_not_repeated(agent):
    machine = node(agent, resumed=True)
    machine.driver.power.change(replace(machine, resumed=False), REBOOT)
    outcome = machine.driver.power.change(machine, REBOOT)
    assert isinstance(outcome, Wait)
    assert [(RESTART, {})] == agent.received


def test_a_command_that_a_crash_prevented_is_sent(agent):
    machine = node(agent, resumed=True)
    assert isinstance(machine.driver.power.change(machine, REBOOT), Wait)
    assert [(RESTART, {})] == agent.received


def test_an_unreachable_agent_gets_no_command(agent):
    machine = node(agent)
    machine = replace(machine, agent=replace(machine.agent, url="http://127.0.0.1:9"))
    with pytest.raises(Unreachable):
        machine.driver.power.change(machine, REBOOT)


def test_it_switches_nothing_off_and_says_so(agent):
    machine = node(agent)
    power = machine.driver.power
    assert Done() == power.power_off(machine)  # a frame step: the restart follows
    for state in (POWER_OFF, POWER_ON):
        assert state not in power.supported
        with pytest.raises(NotSupported, match="only a restart"):
            power.change(machine, state)
    with pytest.raises(NotSupported, match="cannot switch the machine off"):
        power_off(machine, ramdisk=False)
    assert [] == agent.received


def test_the_end_of_a_deployment_leaves_the_agent_to_restart_the_machine(agent):
    machine = node(agent, interfaces={"deploy": "custom-agent", "boot": "ipxe"})
    assert None is machine.driver.deploy._end_agent(machine)
    assert [("standby.sync", {})] == agent.received
