"""In-band steps of manual cleaning: the agent's list, reboots, versions, clean-up after failures."""

import pytest

from app.db.clock import after
from app.models import AgentRecord, Node, NodeHistory, Operation
from app.planning import available_steps
from drivers.core.steps import Flow
from tests.integration.harness import Acme, Harness, requested
from tests.unit.drivers.machines import scripted_agent
from workers.periodic import reconciler
from workers.periodic.database_contact import Contact

from .conftest import BURN, ERASE, POLISH

pytestmark = pytest.mark.parametrize("database", ["sqlite"], indirect=True)


def test_in_band_steps_run_in_order_after_the_agent_has_listed_them(band):
    node = band.with_agent()
    assert "clean wait" == band.do(node, "clean", clean_steps=[BURN, POLISH, ERASE])
    assert ["prepare_ramdisk", "power on"] == Acme.did
    assert "clean wait" == band.call(node)
    band.finish(node)
    assert ["burnin_cpu", "erase_devices"] == band.ran()
    assert "manageable" == band.finish(node)
    assert [*Acme.did[2:]] == ["polish", "power off", "clean_up_ramdisk"]
    labels = [row.label for row in band.steps(node) if row.source == "caller"]
    assert ["deploy.burnin_cpu", "management.polish", "deploy.erase_devices"] == labels


def test_in_band_steps_are_listed_after_the_agent_is_gone(band):
    node = band.with_agent()
    band.do(node, "clean", clean_steps=[BURN])
    band.call(node)
    assert "manageable" == band.finish(node)
    with band.inside.runtime.reading() as session:
        assert session.get_one(AgentRecord, node).url is None
        listed = available_steps.steps_of(session, session.get_one(Node, node), Flow.CLEAN, None)
    assert {"erase_devices", "burnin_cpu"} <= {entry.step.name for entry in listed}


@pytest.mark.parametrize(
    ("step", "complaint"),
    [
        (requested("deploy", "nonsense"), "deploy.nonsense: this node has no clean step"),
        (requested("deploy", "check"), "'what' is required and missing"),
        (requested("deploy", "check", args={"what": 1, "x": 1}), "no argument 'x'"),
    ],
)
def test_an_invalid_in_band_step_is_found_when_the_agent_lists_its_steps(band, step, complaint):
    node = band.with_agent()
    assert "clean wait" == band.do(node, "clean", clean_steps=[POLISH, step])
    assert "clean failed" == band.call(node)
    assert complaint in band.inside.read(node).last_error
    assert "invalid_steps" == band.last(node).error["code"]
    assert [] == band.ran()
    assert "polish" not in Acme.did
    assert "power off" not in Acme.did, "the machine is left on for an operator"


@pytest.mark.parametrize(
    ("verb", "state", "setting"),
    [("clean", "manageable", "CLEANFAIL"), ("service", "active", "SERVICEFAIL")],
)
@pytest.mark.parametrize("power_off", [False, True])
@pytest.mark.parametrize("begun", [False, True])
def test_a_failure_before_the_first_step_powers_off_if_wanted(
    inside, verb, state, setting, power_off, begun
):
    inside.environ["INGOT_AGENT_REQUIRE_TLS"] = "false"
    inside.environ[f"INGOT_CONDUCTOR_POWEROFF_IN_{setting}"] = str(power_off)
    view = inside.another()
    with scripted_agent() as agent:
        harness = Harness(view, agent)
        harness.offer(verb, ("deploy", "burnin_cpu", 0))
        node = harness.with_agent(state)
        harness.do(node, verb, **{f"{verb}_steps": [BURN]})
        if begun:
            harness.call(node)
        assert (["burnin_cpu"] if begun else []) == harness.ran()
        Acme.did.clear()
        if begun:
            agent.fail("too hot")
            harness.call(node)
        else:
            harness.inside.change(Operation, harness.last(node).uuid, deadline_at=after(-1))
            reconciler.reconcile(view.runtime, Contact(timeout=0))
            harness.run()
        assert f"{verb} failed" == harness.state(node)
        assert (power_off and not begun) == (Acme.did[-1:] == ["power off"])
        assert ("power off" in Acme.did) == (power_off and not begun)
    view.close()


def test_a_failed_clean_without_the_agent_has_nothing_to_clean_up(band):
    node = band.with_agent()
    wrong = requested("management", "scrub", args={"level": "wrong"})
    assert "clean failed" == band.do(node, "clean", clean_steps=[wrong])
    assert [("management.scrub", "failed")] == band.labels(node)
    assert [] == Acme.did


def test_an_abort_while_the_agent_boots_cleans_up_and_powers_off(band):
    node = band.with_agent()
    band.do(node, "clean", clean_steps=[BURN])
    band.ask(node, "abort")
    row = band.inside.read(node)
    assert ("clean failed", "c-1") == (row.provision_state, row.reservation), "at once"
    band.run()
    assert ["power off", "clean_up_ramdisk"] == Acme.did[2:]
    assert (None, False) == (band.inside.read(node).reservation, band.inside.read(node).maintenance)


def test_a_failed_cleanup_after_an_abort_sets_maintenance(band):
    node = band.with_agent()
    band.do(node, "clean", clean_steps=[BURN])
    Acme.untidy = True
    assert "clean failed" == band.do(node, "abort")
    row = band.inside.read(node)
    assert (True, "clean failure") == (row.maintenance, row.fault)
    assert "boot.clean_up_ramdisk: cannot be tidied up" in row.last_error


def test_a_failed_cleanup_after_a_failure_is_part_of_the_error(band):
    node = band.with_agent()
    band.do(node, "clean", clean_steps=[ERASE])
    band.call(node)
    Acme.untidy = True
    band.agent.fail("the disk is on fire")
    assert "clean failed" == band.call(node)
    error, cleanup = band.last(node).error, "boot.clean_up_ramdisk"
    assert cleanup == error["cleanup"]
    assert error["message"].endswith(f". Cleanup failed in {cleanup}: cannot be tidied up")
    row = band.inside.read(node)
    assert (error["message"], "clean failure") == (row.last_error, row.fault)
    assert "the disk is on fire" in row.last_error


def test_a_reboot_among_in_band_steps_boots_the_agent_again(band):
    node = band.with_agent()
    band.do(node, "clean", clean_steps=[BURN, requested("power", "reboot"), ERASE])
    band.call(node)
    assert "clean wait" == band.finish(node)
    assert ["prepare_ramdisk", "power off"] == Acme.did[2:]
    with band.inside.runtime.reading() as session:
        token = session.get_one(AgentRecord, node).token
    assert token is None, "it is cleared before the lookup of the next agent"
    assert "clean wait" == band.poll(node)
    assert ["prepare_ramdisk", "power off", "power on"] == Acme.did[2:]
    assert ["burnin_cpu"] == band.ran(), "the earlier agent is gone"
    band.agent.restart()
    band.call(node)
    assert "manageable" == band.finish(node)
    assert ["burnin_cpu", "erase_devices"] == band.ran()


def test_another_version_of_the_agents_hardware_managers_aborts_a_manual_clean(band):
    node = band.with_agent()
    band.do(node, "clean", clean_steps=[ERASE, BURN])
    band.call(node)
    band.agent.fail("changed", "CLEAN_VERSION_MISMATCH")
    assert "clean failed" == band.call(node)
    assert ["erase_devices"] == band.ran()
    assert "version_mismatch" == band.last(node).error["code"]


def test_another_version_of_the_agents_hardware_managers_restarts_an_automated_clean(band):
    node = band.with_agent()
    band.do(node, "provide")
    band.inside.change(Operation, band.last(node).uuid, requested_by="user")
    band.call(node)
    band.agent.fail("changed", "CLEAN_VERSION_MISMATCH")
    band.offer("clean", ("deploy", "erase_devices", 10), ("deploy", "more", 50), version="2")
    assert "clean wait" == band.call(node)
    assert ["erase_devices", "more"] == band.ran()
    band.finish(node)
    assert "available" == band.finish(node)
    assert ["erase_devices", "more", "erase_devices"] == band.ran()
    calls = [params for name, params in band.agent.received if name == "clean.execute_clean_step"]
    assert ["1", "2", "2"] == [params["clean_version"]["manager"] for params in calls]
    with band.inside.runtime.reading() as session:
        entries = session.query(NodeHistory).filter_by(node_id=node, severity="WARNING").all()
    (entry,) = entries
    reason = "the agent's hardware managers have changed since it listed its steps"
    assert f"Automated cleaning begins again: deploy.erase_devices: {reason}." == entry.event
    assert "user" == entry.user


def test_an_agent_with_a_new_version_at_each_boot_does_not_restart_a_clean_forever(band):
    node = band.with_agent()
    band.do(node, "provide")
    band.call(node)
    for _ in range(3):
        band.agent.fail("changed", "CLEAN_VERSION_MISMATCH")
        assert "clean wait" == band.call(node)
    band.agent.fail("changed", "CLEAN_VERSION_MISMATCH")
    assert "clean failed" == band.call(node)


@pytest.mark.parametrize(
    ("result", "ends", "raid_config"),
    [({"logical_disks": []}, "manageable", {"logical_disks": []}), (None, "clean failed", {})],
)
def test_the_hook_after_an_agents_step_may_fail_it(band, result, ends, raid_config):
    band.offer("clean", ("raid", "create_configuration", 0))
    target_config = {"logical_disks": [{"raid_level": "1", "size_gb": "MAX"}]}
    node = band.with_agent(raid_interface="agent", target_raid_config=target_config)
    band.do(node, "clean", clean_steps=[requested("raid", "create_configuration")])
    band.call(node)
    states = [band.finish(node, result=result)]
    while states[-1] == "clean wait":  # an invalid answer may be valid at the next poll
        states.append(band.poll(node))
    assert ends == states[-1]
    assert raid_config == band.inside.read(node).raid_config


def test_the_agent_gets_the_parameters_of_its_burn_in_and_no_other_key_of_driver_info(band):
    burn_in = {
        "agent_burnin_cpu_timeout": 60,
        "agent_burnin_fio_network_config": {"role": "reader"},
    }
    secrets = {"redfish_password": "p", "my_agent_burnin_x": "p", "deploy_kernel": "p"}
    node = band.with_agent(driver_info={**burn_in, **secrets})
    band.do(node, "clean", clean_steps=[BURN])
    band.call(node)
    infos = [params["node"]["driver_info"] for _, params in band.agent.received if "node" in params]
    assert [burn_in] * len(infos) == infos
    assert "burnin_cpu" in band.ran()
