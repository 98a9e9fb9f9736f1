"""Manual cleaning (spec manual-cleaning), in one process."""

import pytest

from app.db.clock import after
from app.engine import operations
from app.errors import Invalid
from app.inventory import nodes
from app.models import AgentRecord, Node, NodeHistory, Operation
from app.planning import available_steps
from app.reports import why
from drivers.core.steps import Flow
from tests.integration.harness import Acme, AcmeManagement, Harness, requested
from tests.unit.drivers.machines import scripted_agent
from workers.periodic import reconciler

pytestmark = pytest.mark.parametrize("database", ["sqlite"], indirect=True)

POLISH = requested("management", "polish")
SCRUB = requested("management", "scrub", args={"level": "deep"})
HOLD = requested("power", "hold")
ERASE, BURN = requested("deploy", "erase_devices"), requested("deploy", "burnin_cpu")


@pytest.fixture
def harness(inside):
    return Harness(inside)


@pytest.fixture
def band(inside, monkeypatch):
    """Harness with an HTTP agent that has three clean steps."""
    inside.environ["INGOT_AGENT_REQUIRE_TLS"] = "false"
    plain = inside.another()
    with scripted_agent() as agent:
        harness = Harness(plain, agent)
        harness.offer(
            "clean",
            ("deploy", "erase_devices", 10, {"abortable": True}),
            ("deploy", "burnin_cpu", 0),
            ("deploy", "check", 0, {"argsinfo": {"what": {"description": "d", "required": True}}}),
        )
        yield harness
    plain.close()


def test_steps_run_in_the_order_given_and_the_node_is_manageable_again(harness):
    node = harness.node()
    assert "manageable" == harness.do(node, "clean", clean_steps=[SCRUB, POLISH, SCRUB])
    assert ["scrub deep", "polish", "scrub deep"] == Acme.did
    operation = harness.last(node)
    assert ("clean", "succeeded") == (operation.kind, operation.state)
    assert ["caller"] * 3 == [row.source for row in harness.steps(node)]


def test_an_explicit_order_of_steps_is_respected(harness):
    node = harness.node()
    harness.do(node, "clean", clean_steps=[{**SCRUB, "order": 2}, {**POLISH, "order": 1}])
    assert ["polish", "scrub deep"] == Acme.did


@pytest.mark.parametrize(
    ("name", "label"),
    [("hold", "deploy.hold"), ("wait", "deploy.wait"), ("reboot", "power.reboot")],
)
def test_a_reserved_step_needs_no_interface(harness, name, label):
    node = harness.node()
    harness.ask(node, "clean", clean_steps=[{"step": name}])
    assert [(label, "pending")] == harness.labels(node)


@pytest.mark.parametrize(
    ("steps", "disable_ramdisk", "complaint"),
    [
        ([POLISH, requested("management", "scrub")], False, "'level' is required and missing"),
        ([POLISH, requested("management", "scrub", args={"level": 1, "x": 1})], False, "no argument 'x'"),
        ([POLISH, requested("management", "nonsense")], False, "no clean step of that name"),
        ([POLISH, requested("vendor", "log_passthrough")], True, "needs the ramdisk"),
        ([POLISH, requested("deploy", "wait", args={"hours": 1})], False, "no argument 'hours'"),
    ],
)  # fmt: skip
def test_an_invalid_step_fails_the_clean_before_any_step(
    harness, steps, disable_ramdisk, complaint
):
    node = harness.node()
    harness.do(node, "clean", clean_steps=steps, disable_ramdisk=disable_ramdisk)
    row = harness.inside.read(node)
    assert ("clean failed", "manageable") == (row.provision_state, row.target_provision_state)
    assert complaint in row.last_error
    assert (True, "clean failure", None) == (row.maintenance, row.fault, row.reservation)
    assert ("failed", "invalid_steps") == (
        harness.last(node).state,
        harness.last(node).error["code"],
    )
    assert [] == Acme.did


def test_a_step_that_refuses_its_argument_keeps_earlier_steps_done(harness):
    node = harness.node()
    wrong = requested("management", "scrub", args={"level": "wrong"})
    assert "clean failed" == harness.do(node, "clean", clean_steps=[POLISH, wrong, POLISH])
    assert ["polish"] == Acme.did
    assert [("management.polish", "done"), ("management.scrub", "failed"),
            ("management.polish", "skipped")] == harness.labels(node)  # fmt: skip
    error = harness.last(node).error
    assert ("bad_argument", "management.scrub", 1) == (
        error["code"], error["step"], error["attempt"]
    )  # fmt: skip
    assert error["cause"]
    assert error["hint"]
    told = harness.inside.read(node).last_error
    assert "management.scrub: level 'wrong' is none" == told == error["message"]


@pytest.mark.parametrize("verbs", [(), ("manage",)])
def test_clean_failed_is_cleaned_again_in_maintenance_and_success_ends_maintenance(harness, verbs):
    node = harness.node()
    harness.do(node, "clean", clean_steps=[requested("management", "nonsense")])
    for verb in verbs:
        harness.ask(node, verb)
    assert harness.inside.read(node).maintenance
    assert "manageable" == harness.do(node, "clean", clean_steps=[POLISH])
    assert (False, None) == (harness.inside.read(node).maintenance, harness.inside.read(node).fault)


def test_hold_keeps_the_target_manageable_and_unhold_resumes_at_once(harness):
    other, node = harness.node(), harness.node()
    assert "clean hold" == harness.do(other, "clean", clean_steps=[HOLD])
    assert "clean hold" == harness.do(node, "clean", clean_steps=[POLISH, HOLD, SCRUB])
    row = harness.inside.read(node)
    assert ("manageable", None) == (row.target_provision_state, row.reservation)
    assert ("held", None) == (harness.last(node).state, harness.last(node).deadline_at)
    assert "manageable" == harness.do(node, "unhold")
    assert ["polish", "scrub deep"] == Acme.did
    assert "clean hold" == harness.state(other)


def test_a_held_clean_can_be_aborted(harness):
    node = harness.node()
    harness.do(node, "clean", clean_steps=[HOLD, POLISH])
    assert "clean failed" == harness.do(node, "abort")
    row = harness.inside.read(node)
    assert (False, "manageable", None) == (
        row.maintenance, row.target_provision_state, row.reservation
    )  # fmt: skip
    assert "By request" in row.last_error
    assert "aborted" == harness.last(node).state
    assert [] == Acme.did
    assert "manageable" == harness.do(node, "manage")


def test_power_steps_run_in_position(harness):
    node = harness.node(power_state="power on")
    steps = [POLISH, requested("power", "power_off"), SCRUB, requested("power", "reboot"), POLISH]
    assert "manageable" == harness.do(node, "clean", clean_steps=steps)
    assert ["polish", "power off", "scrub deep", "power on", "polish"] == Acme.did


@pytest.mark.parametrize(
    ("args", "seconds"), [({"seconds": 10}, 10), ({"seconds": 3600}, 30), ({}, 30)]
)
def test_the_step_wait_lasts_for_its_time(harness, args, seconds):
    node = harness.node()
    wait = requested("power", "wait", args=args)
    assert "clean wait" == harness.do(node, "clean", clean_steps=[wait, POLISH])
    waits = harness.last(node).wake_at - harness.steps(node)[0].started_at
    assert seconds - 1 < waits.total_seconds() < seconds + 9
    assert "manageable" == harness.poll(node)
    assert ["polish"] == Acme.did


def test_a_running_abortable_step_is_aborted_at_once(harness):
    node = harness.node()
    assert "clean wait" == harness.do(
        node, "clean", clean_steps=[requested("management", "stroll"), POLISH]
    )
    assert "clean failed" == harness.do(node, "abort")
    assert [("management.stroll", "aborted"), ("management.polish", "skipped")] == harness.labels(
        node
    )


def test_a_running_step_that_cannot_be_aborted_ends_first(harness):
    node = harness.node()
    harness.do(node, "clean", clean_steps=[requested("management", "crawl"), POLISH])
    assert "clean wait" == harness.do(node, "abort")
    assert harness.steps(node)[0].abort_after
    assert "clean failed" == harness.poll(node)
    assert ["crawl"] == Acme.did
    assert [("management.crawl", "done"), ("management.polish", "skipped")] == harness.labels(node)
    assert (False, "aborted") == (harness.inside.read(node).maintenance, harness.last(node).state)


def test_a_transient_error_is_retried_and_shown(harness):
    node = harness.node()
    Acme.unreachable = 2
    flicker = requested("management", "flicker")
    assert "clean wait" == harness.do(node, "clean", clean_steps=[flicker, POLISH])
    assert "clean wait" == harness.poll(node)
    assert "manageable" == harness.poll(node)
    row = harness.steps(node)[0]
    assert (3, 2, "no answer", "done") == (row.attempts, row.faults, row.error, row.state)
    assert 3 == row.attempt


def test_a_wait_is_part_of_the_attempt_that_waits(harness):
    node = harness.node()
    harness.do(node, "clean", clean_steps=[requested("management", "crawl"), POLISH])
    assert "manageable" == harness.poll(node)
    crawl, polish = harness.steps(node)
    assert [(2, 1), (1, 1)] == [(each.attempts, each.attempt) for each in (crawl, polish)]


def test_a_persistent_error_fails_the_step_after_its_retries(harness):
    node = harness.node()
    Acme.unreachable = 9
    harness.do(node, "clean", clean_steps=[requested("management", "flicker")])
    assert ["clean wait", "clean failed"] == [harness.poll(node), harness.poll(node)]
    assert (3, "unreachable") == (
        harness.last(node).error["attempt"],
        harness.last(node).error["code"],
    )


def test_a_step_may_have_a_deadline_of_its_own(harness):
    node = harness.node()
    harness.do(node, "clean", clean_steps=[requested("management", "stroll")])
    row, operation = harness.steps(node)[0], harness.last(node)
    assert row.deadline_at == operation.deadline_at
    assert 0 < (row.deadline_at - row.started_at).total_seconds() < 9


def test_steps_run_on_child_nodes_which_are_reserved_meanwhile(harness):
    parent = harness.node(name="parent")
    uuid = harness.inside.read(parent).uuid
    children = [harness.node(name=name, parent_node=uuid) for name in ("a", "b")]
    steps = [POLISH, requested("management", "crawl", execute_on_child_nodes=True), POLISH]
    assert "clean wait" == harness.do(parent, "clean", clean_steps=steps)
    assert ["c-1", None] == [harness.inside.read(each).reservation for each in children]
    harness.poll(parent)
    assert [None, "c-1"] == [harness.inside.read(each).reservation for each in children]
    assert "manageable" == harness.poll(parent)
    assert [None, None] == [harness.inside.read(each).reservation for each in children]
    polish = ("parent", "polish")
    assert [polish, ("a", "crawl"), ("b", "crawl"), polish] == Acme.did


@pytest.mark.parametrize(
    ("step", "complaint"),
    [
        (requested("management", "scrub"), "management.scrub: the argument 'level' is required"),
        (requested("management", "scrub", args={"level": 1, "x": 1}), "has no argument 'x'"),
        (requested("management", "prepare_fans"), "has no clean step of that name"),
        (requested("bios", "polish"), "has no clean step of that name"),
    ],
)
def test_an_invalid_step_of_a_child_node_fails_the_clean_before_any_step(harness, step, complaint):
    parent = harness.node()
    harness.node(parent_node=harness.inside.read(parent).uuid)
    steps = [POLISH, {**step, "execute_on_child_nodes": True}]
    assert "clean failed" == harness.do(parent, "clean", clean_steps=steps)
    assert complaint in harness.inside.read(parent).last_error
    assert "invalid_steps" == harness.last(parent).error["code"]
    assert [] == Acme.did


def test_a_step_of_a_child_node_may_come_from_its_drivers_list(harness, monkeypatch):
    def listing(management, target):
        return [{"step": "shred", "priority": 5, "requires_ramdisk": False}]

    def execute(management, target, step):
        return Acme.does(target, step["step"])

    monkeypatch.setattr(AcmeManagement, "get_clean_steps", listing, raising=False)
    monkeypatch.setattr(AcmeManagement, "execute_clean_step", execute, raising=False)
    parent = harness.node(name="parent")
    harness.node(name="a", parent_node=harness.inside.read(parent).uuid)
    shred = requested("management", "shred", execute_on_child_nodes=True)
    assert "manageable" == harness.do(parent, "clean", clean_steps=[shred])
    assert [("a", "shred")] == Acme.did


def test_why_names_the_parents_step_that_has_reserved_a_child_node(harness):
    parent = harness.node()
    uuid = harness.inside.read(parent).uuid
    child = harness.node(parent_node=uuid)
    crawl = requested("management", "crawl", execute_on_child_nodes=True)
    harness.do(parent, "clean", clean_steps=[crawl])
    with harness.inside.runtime.reading() as session:
        answer = why.explain(session, session.get_one(Node, child))
    assert (
        f"reserved for step management.crawl of clean on its parent node {uuid}" in answer.summary
    )
    assert ("c-1", "management.crawl", ()) == (answer.held_by, answer.step, answer.verbs)
    harness.poll(parent)
    with harness.inside.runtime.reading() as session:
        answer = why.explain(session, session.get_one(Node, child))
    assert ("nothing is under way" in answer.summary, None) == (True, answer.step)


def test_the_deletion_of_a_node_releases_the_child_that_its_step_waits_for(harness):
    parent = harness.node(name="parent")
    child = harness.node(name="child", parent_node=harness.inside.read(parent).uuid)
    steps = [requested("management", "crawl", execute_on_child_nodes=True)]
    assert "clean wait" == harness.do(parent, "clean", clean_steps=steps)
    harness.inside.change(Node, parent, maintenance=True)
    with harness.inside.runtime.transaction() as session:
        nodes.remove(session, operations.lock(session, parent))
    row = harness.inside.read(child)
    assert (None, None) == (row.reservation, row.operation_id)


def test_deploy_steps_run_on_child_nodes_beside_the_steps_of_the_same_name(harness):
    parent = harness.node("available", name="parent")
    uuid = harness.inside.read(parent).uuid
    harness.node(name="a", parent_node=uuid)
    fans = requested("management", "prepare_fans", args={}, priority=160)
    steps = [{**fans, "execute_on_child_nodes": True}]
    harness.do(parent, "active", deploy_steps=steps)
    assert "active" == harness.state(parent)
    assert [("a", "prepare_fans"), ("parent", "prepare_fans")] == Acme.did[:2]


def test_steps_run_only_on_the_named_children_and_a_busy_one_is_awaited(harness):
    parent = harness.node(name="parent")
    uuid = harness.inside.read(parent).uuid
    harness.node(name="a", parent_node=uuid)
    busy = harness.node(name="b", parent_node=uuid, reservation="other")
    only = requested(
        "power", "power_on", limit_child_node_execution=[harness.inside.read(busy).uuid]
    )
    assert "clean wait" == harness.do(parent, "clean", clean_steps=[only])
    with harness.inside.runtime.transaction() as session:
        session.get_one(type(harness.inside.read(busy)), busy).reservation = None
    assert "manageable" == harness.poll(parent)
    assert [("b", "power on")] == Acme.did
    assert "power on" == harness.inside.read(busy).power_state


def test_a_step_for_a_node_that_is_no_child_is_refused(harness):
    parent, other = harness.node(), harness.node()
    uuid, wrong = (harness.inside.read(each).uuid for each in (parent, other))
    only = requested("power", "power_on", limit_child_node_execution=[wrong])
    complaint = f"{wrong}, named for step power_on, is not a child of node {uuid}"
    with pytest.raises(Invalid, match=complaint):
        harness.ask(parent, "clean", clean_steps=[only])


def test_in_band_steps_run_in_order_after_the_agent_has_listed_them(band):
    node = band.with_agent()
    assert "clean wait" == band.do(node, "clean", clean_steps=[BURN, POLISH, ERASE])
    assert ["prepare_ramdisk", "power on"] == Acme.did
    assert "clean wait" == band.call(node)
    band.finish(node)
    assert ["burnin_cpu", "erase_devices"] == band.ran()
    assert "manageable" == band.finish(node)
    assert [*Acme.did[2:]] == ["polish", "power off", "clean_up_ramdisk"]
    own = [row.label for row in band.steps(node) if row.source == "caller"]
    assert ["deploy.burnin_cpu", "management.polish", "deploy.erase_devices"] == own


def test_in_band_steps_are_listed_after_the_agent_is_gone(band):
    node = band.with_agent()
    band.do(node, "clean", clean_steps=[BURN])
    band.call(node)
    assert "manageable" == band.finish(node)
    with band.inside.runtime.reading() as session:
        assert session.get_one(AgentRecord, node).url is None
        listed = available_steps.steps_of(session, session.get_one(Node, node), Flow.CLEAN, None)
    assert {"erase_devices", "burnin_cpu"} <= {each.step.name for each in listed}


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
@pytest.mark.parametrize("wanted", [False, True])
@pytest.mark.parametrize("begun", [False, True])
def test_a_failure_before_the_first_step_powers_off_if_wanted(
    inside, verb, state, setting, wanted, begun
):
    inside.environ["INGOT_AGENT_REQUIRE_TLS"] = "false"
    inside.environ[f"INGOT_CONDUCTOR_POWEROFF_IN_{setting}"] = str(wanted)
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
            reconciler.reconcile(view.runtime, reconciler.Contact(timeout=0))
            harness.run()
        assert f"{verb} failed" == harness.state(node)
        assert (wanted and not begun) == (Acme.did[-1:] == ["power off"])
        assert ("power off" in Acme.did) == (wanted and not begun)
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
    sent = [params for name, params in band.agent.received if name == "clean.execute_clean_step"]
    assert ["1", "2", "2"] == [params["clean_version"]["manager"] for params in sent]
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
    ("result", "ends", "kept"),
    [({"logical_disks": []}, "manageable", {"logical_disks": []}), (None, "clean failed", {})],
)
def test_the_hook_after_an_agents_step_may_fail_it(band, result, ends, kept):
    band.offer("clean", ("raid", "create_configuration", 0))
    wanted = {"logical_disks": [{"raid_level": "1", "size_gb": "MAX"}]}
    node = band.with_agent(raid_interface="agent", target_raid_config=wanted)
    band.do(node, "clean", clean_steps=[requested("raid", "create_configuration")])
    band.call(node)
    states = [band.finish(node, result=result)]
    while states[-1] == "clean wait":  # an invalid answer may be valid at the next poll
        states.append(band.poll(node))
    assert ends == states[-1]
    assert kept == band.inside.read(node).raid_config
