"""Steps of a node from deploy templates and runbooks."""

import pytest

from app.errors import Invalid, NotFound
from app.inventory import runbooks, templates
from app.models import Node, NodeTrait

ERASE = {"interface": "deploy", "step": "erase_devices", "args": {}}
RESET = {"interface": "bios", "step": "factory_reset", "args": {}}


@pytest.fixture
def node(inside):
    """A node with the traits CUSTOM_A and CUSTOM_B."""
    node_id = inside.node("available")
    with inside.runtime.transaction() as session:
        session.add_all(NodeTrait(node_id=node_id, trait=f"CUSTOM_{letter}") for letter in "AB")
    return node_id


def of_templates(inside, node, **new_templates):
    """Return the steps of a deployment with the instance's `traits`, and these templates."""
    with inside.runtime.transaction() as session:
        for name, steps in new_templates.items():
            templates.create(session, {"name": name, "steps": steps})
    with inside.runtime.reading() as session:
        return templates.steps_of(session, session.get_one(Node, node))


def test_templates_of_the_requested_traits_add_their_steps(inside, node):
    step_a, step_b, step_c = ({**RESET, "step": name, "priority": 1} for name in ("a", "b", "c"))
    assert [] == of_templates(inside, node, CUSTOM_A=[step_a], CUSTOM_B=[step_b], CUSTOM_C=[step_c])
    inside.change(Node, node, instance_info={"traits": ["CUSTOM_B", "CUSTOM_A"]})
    assert [step_a, step_b] == of_templates(inside, node)
    inside.change(Node, node, instance_info={"traits": ["CUSTOM_B"]})
    assert [step_b] == of_templates(inside, node)
    inside.change(Node, node, instance_info={"traits": ["CUSTOM_B", "CUSTOM_C"]})
    with pytest.raises(Invalid, match="missing traits CUSTOM_C"):
        of_templates(inside, node)


def test_a_step_of_two_templates_is_refused(inside, node):
    inside.change(Node, node, instance_info={"traits": ["CUSTOM_B", "CUSTOM_A"]})
    step = {**RESET, "priority": 1}
    with pytest.raises(Invalid, match=r"CUSTOM_A, CUSTOM_B: .* bios\.factory_reset"):
        of_templates(inside, node, CUSTOM_A=[step], CUSTOM_B=[{**step, "priority": 2}])


@pytest.mark.parametrize(
    ("name", "traits", "fits"),
    [
        ("CUSTOM_A", [], True),
        ("CUSTOM_C", [], False),
        ("my-book", ["CUSTOM_B", "CUSTOM_C"], True),
        ("my-book", ["CUSTOM_C"], False),
        ("my-book", [], False),
    ],
)
def test_a_runbook_fits_nodes_that_share_a_trait_with_it(inside, node, name, traits, fits):
    steps = [{**ERASE, "order": 2}, {**RESET, "order": 1}]
    with inside.runtime.transaction() as session:
        fields = {"name": name, "steps": steps, "disable_ramdisk": True}
        runbook = runbooks.create(session, fields)
        runbooks.set_traits(runbook, traits)
    with inside.runtime.reading() as session:
        row = session.get_one(Node, node)
        for ident in (name, runbook.uuid, runbook.uuid.replace("-", "").upper()):
            if fits:
                assert (steps[::-1], True) == runbooks.steps_of(session, row, ident)
            else:
                with pytest.raises(Invalid, match="none of them"):
                    runbooks.steps_of(session, row, ident)
        with pytest.raises(NotFound):
            runbooks.steps_of(session, row, "nonesuch")
