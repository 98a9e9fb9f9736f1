"""Steps of manual cleaning on child nodes."""

import pytest

from app.engine import operations
from app.errors import Invalid
from app.inventory import nodes
from app.models import Node
from app.reports import why
from tests.integration.harness import Acme, AcmeManagement, requested

from .conftest import POLISH

pytestmark = pytest.mark.parametrize("database", ["sqlite"], indirect=True)


def test_steps_run_on_child_nodes_which_are_reserved_meanwhile(harness):
    parent = harness.node(name="parent")
    uuid = harness.inside.read(parent).uuid
    children = [harness.node(name=name, parent_node=uuid) for name in ("a", "b")]
    steps = [POLISH, requested("management", "crawl", execute_on_child_nodes=True), POLISH]
    assert "clean wait" == harness.do(parent, "clean", clean_steps=steps)
    assert ["c-1", None] == [harness.inside.read(child).reservation for child in children]
    harness.poll(parent)
    assert [None, "c-1"] == [harness.inside.read(child).reservation for child in children]
    assert "manageable" == harness.poll(parent)
    assert [None, None] == [harness.inside.read(child).reservation for child in children]
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
    uuid, wrong = (harness.inside.read(node).uuid for node in (parent, other))
    only = requested("power", "power_on", limit_child_node_execution=[wrong])
    complaint = f"{wrong}, named for step power_on, is not a child of node {uuid}"
    with pytest.raises(Invalid, match=complaint):
        harness.ask(parent, "clean", clean_steps=[only])
