"""Runbooks of cleaning: of operators, of nodes, and of settings."""

from uuid import uuid4

import pytest

from app.errors import Invalid, NotFound
from app.models import Node, NodeTrait, Runbook
from tests.integration.harness import Acme, AcmeManagement, Harness, requested

from .conftest import POLISH, SCRUB

pytestmark = pytest.mark.parametrize("database", ["sqlite"], indirect=True)


def test_a_runbook_cleans(harness):
    node = harness.node()
    steps = [{**SCRUB, "order": 2}, {**POLISH, "order": 1}]
    with harness.inside.runtime.transaction() as session:
        session.add(Runbook(uuid="r" * 36, name="CUSTOM_R", steps=steps, traits=[]))
    with pytest.raises(Invalid, match="none of them"):
        harness.do(node, "clean", runbook="CUSTOM_R")
    with harness.inside.runtime.transaction() as session:
        session.add(NodeTrait(node_id=node, trait="CUSTOM_R"))
    assert "manageable" == harness.do(node, "clean", runbook="CUSTOM_R")
    assert ["polish", "scrub deep"] == Acme.did
    assert {"runbook"} == {row.source for row in harness.steps(node)}


def test_a_runbook_has_steps_of_child_nodes(harness):
    node = harness.node()
    harness.node(name="child", parent_node=harness.inside.read(node).uuid)
    step = {**requested("power", "power_on", execute_on_child_nodes=True), "order": 1}
    with harness.inside.runtime.transaction() as session:
        session.add(Runbook(uuid="r" * 36, name="CUSTOM_R", steps=[step], traits=[]))
        session.add(NodeTrait(node_id=node, trait="CUSTOM_R"))
    assert "manageable" == harness.do(node, "clean", runbook="CUSTOM_R")
    assert [("child", "power on")] == Acme.did


def test_a_runbook_that_disables_the_ramdisk_has_no_step_that_needs_it(harness):
    node = harness.node()
    steps = [{**requested("vendor", "log_passthrough"), "order": 1}]
    with harness.inside.runtime.transaction() as session:
        session.add(
            Runbook(uuid="r" * 36, name="CUSTOM_R", steps=steps, traits=[], disable_ramdisk=True)
        )
        session.add(NodeTrait(node_id=node, trait="CUSTOM_R"))
    assert "clean failed" == harness.do(node, "clean", runbook="CUSTOM_R")
    assert "needs the ramdisk" in harness.inside.read(node).last_error


@pytest.mark.parametrize("state", ["active", "rescue"])
def test_a_runbook_cleans_a_deleted_node_after_the_cleanup_of_its_rescue(inside, state):
    inside.environ |= {
        "INGOT_CONDUCTOR_AUTOMATED_CLEANING_STEP_SOURCE": "runbook",
        "INGOT_CONDUCTOR_AUTOMATED_CLEANING_RUNBOOK": "CUSTOM_R",
    }
    harness = Harness(inside.another())
    node = harness.with_agent(state)
    with harness.inside.runtime.transaction() as session:
        session.add(Runbook(uuid="r" * 36, name="CUSTOM_R", steps=[{**POLISH, "order": 1}]))
        session.add(NodeTrait(node_id=node, trait="CUSTOM_R"))
    harness.ask(node, "deleted")
    labels = [label for label, _ in harness.labels(node)]
    assert (state == "rescue") == ("network.remove_rescuing_network" in labels)
    assert "management.polish" == labels[-1]
    harness.inside.close()


def test_a_deletion_of_a_rescued_node_without_a_runbook_cleans_up_its_rescue(inside):
    inside.environ["INGOT_CONDUCTOR_AUTOMATED_CLEANING_STEP_SOURCE"] = "hybrid"
    harness = Harness(inside.another())
    node = harness.with_agent("rescue")
    harness.ask(node, "deleted")
    assert "network.remove_rescuing_network" in [label for label, _ in harness.labels(node)]
    harness.inside.close()


def test_a_setting_enables_automated_cleaning_by_a_runbook(inside):
    inside.environ["INGOT_CONDUCTOR_AUTOMATED_CLEANING_STEP_SOURCE"] = "runbook"
    inside.environ["INGOT_CONDUCTOR_AUTOMATED_CLEANING_RUNBOOK_BY_RESOURCE_CLASS"] = "gold:CUSTOM_R"
    harness = Harness(inside.another())
    node, other = harness.node(resource_class="gold"), harness.node()
    with harness.inside.runtime.transaction() as session:
        session.add(Runbook(uuid="r" * 36, name="CUSTOM_R", steps=[{**POLISH, "order": 1}]))
        session.add(NodeTrait(node_id=node, trait="CUSTOM_R"))
    assert "available" == harness.do(node, "provide")
    assert ["polish"] == Acme.did
    with pytest.raises(Invalid, match="automated_cleaning_runbook"):
        harness.do(other, "provide")
    harness.inside.close()


@pytest.mark.parametrize(
    ("source", "info", "usual", "polishes"),
    [
        ("runbook", {"cleaning_runbook": "CUSTOM_R"}, "", True),
        ("runbook", {}, "CUSTOM_R", True),
        ("hybrid", {"cleaning_runbook": "CUSTOM_R"}, "CUSTOM_GONE", True),
        ("hybrid", {}, "", False),
    ],
)
def test_a_node_may_name_the_runbook_of_its_cleaning(inside, source, info, usual, polishes):
    inside.environ |= {
        "INGOT_CONDUCTOR_AUTOMATED_CLEANING_STEP_SOURCE": source,
        "INGOT_CONDUCTOR_AUTOMATED_CLEANING_RUNBOOK_FROM_NODE": "true",
        **({"INGOT_CONDUCTOR_AUTOMATED_CLEANING_RUNBOOK": usual} if usual else {}),
    }
    harness = Harness(inside.another())
    node = harness.node(driver_info=info)
    with harness.inside.runtime.transaction() as session:
        session.add(Runbook(uuid="r" * 36, name="CUSTOM_R", steps=[{**POLISH, "order": 1}]))
        session.add(NodeTrait(node_id=node, trait="CUSTOM_R"))
    assert "available" == harness.do(node, "provide")
    assert polishes == ("polish" in Acme.did)
    harness.inside.close()


@pytest.mark.parametrize(
    ("runbook", "complaint"),
    [
        ("CUSTOM_GONE", "CUSTOM_GONE could not be found"),
        ("CUSTOM_R", "none of them"),
        ("CUSTOM_WRONG", "no clean step of that name"),
        ("", "names none for it"),
        ("the driver's", "get_clean_steps: KeyError"),
    ],
)
def test_a_clean_that_cannot_be_planned_fails_after_the_tear_down(
    inside, monkeypatch, runbook, complaint
):
    if runbook == "the driver's":
        lists = lambda *_: [{"step": "shred"}]  # noqa: E731
        monkeypatch.setattr(AcmeManagement, "get_clean_steps", lists, raising=False)
    else:
        inside.environ["INGOT_CONDUCTOR_AUTOMATED_CLEANING_STEP_SOURCE"] = "runbook"
        inside.environ["INGOT_CONDUCTOR_AUTOMATED_CLEANING_RUNBOOK_BY_RESOURCE_CLASS"] = (
            f"gold:{runbook}" if runbook else ""
        )
    harness = Harness(inside.another())
    node = harness.node("active", resource_class="gold", instance_uuid=str(uuid4()))
    wrong = requested("management", "nonsense", order=1)
    with harness.inside.runtime.transaction() as session:
        session.add(Runbook(uuid="r" * 36, name="CUSTOM_R", steps=[{**POLISH, "order": 1}]))
        session.add(Runbook(uuid="w" * 36, name="CUSTOM_WRONG", steps=[wrong]))
        session.add(NodeTrait(node_id=node, trait="CUSTOM_WRONG"))
    assert "clean failed" == harness.do(node, "deleted")
    row = harness.inside.read(node)
    assert complaint in row.last_error
    assert (None, True, "clean failure") == (row.instance_uuid, row.maintenance, row.fault)
    assert "invalid_steps" == harness.last(node).error["code"]
    with pytest.raises((Invalid, NotFound), match=complaint):
        harness.do(node, "provide")
    harness.inside.close()


@pytest.mark.parametrize("validates", ["true", "false"])
def test_a_setting_allows_automated_cleaning_by_a_runbook_without_a_common_trait(inside, validates):
    inside.environ |= {
        "INGOT_CONDUCTOR_AUTOMATED_CLEANING_STEP_SOURCE": "runbook",
        "INGOT_CONDUCTOR_AUTOMATED_CLEANING_RUNBOOK": "CUSTOM_R",
        "INGOT_CONDUCTOR_AUTOMATED_CLEANING_RUNBOOK_VALIDATE_TRAITS": validates,
    }
    harness = Harness(inside.another())
    node = harness.node()
    with harness.inside.runtime.transaction() as session:
        session.add(Runbook(uuid="r" * 36, name="CUSTOM_R", steps=[{**POLISH, "order": 1}]))
    if validates == "true":
        with pytest.raises(Invalid, match="none of them"):
            harness.do(node, "provide")
    else:
        assert "available" == harness.do(node, "provide")
    assert ([] if validates == "true" else ["polish"]) == Acme.did
    harness.inside.change(Node, node, provision_state="manageable")
    with pytest.raises(Invalid, match="none of them"):
        harness.do(node, "clean", runbook="CUSTOM_R")
    harness.inside.close()
