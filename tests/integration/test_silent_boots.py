"""Machines that network-boot the agent and send no heartbeat are booted again."""

import pytest
from sqlalchemy import select

from app.agents import silent_boots
from app.db.clock import after
from app.engine import timeouts
from app.models import Node, OperationStep
from tests.integration.harness import AcmeBoot, Harness

pytestmark = pytest.mark.parametrize("database", ["sqlite"], indirect=True)


@pytest.fixture
def silent(inside, monkeypatch):
    """A function that creates a node whose agent was booted ten minutes ago: (harness, function)"""
    inside.environ["INGOT_PXE_BOOT_RETRY_TIMEOUT"] = "60"
    harness = Harness(inside.another())
    monkeypatch.setattr(AcmeBoot, "boots_again", True)

    def make():
        node = harness.with_agent()
        assert "clean wait" == harness.do(node, "provide")
        with harness.inside.runtime.reading() as session:
            boot = session.scalars(
                select(OperationStep.id)
                .where(OperationStep.operation_id == harness.last(node).id)
                .where(OperationStep.name == "prepare_ramdisk")
            ).one()
        harness.inside.change(OperationStep, boot, finished_at=after(-600))
        return node

    yield harness, make
    harness.inside.close()


def retry(harness):
    return silent_boots.retry_silent_boots(harness.inside.runtime)


def test_a_silent_machine_is_powered_off_and_booted_again(silent):
    harness, make = silent
    node = make()
    operation = harness.last(node)
    assert 1 == retry(harness)
    later_operation = harness.last(node)
    assert ("queued", operation.fence + 1) == (later_operation.state, later_operation.fence)
    assert later_operation.cursor < operation.cursor
    assert 0 == retry(harness)


@pytest.mark.parametrize("cause", ["its driver is not loaded here", "a defect"])
def test_a_machine_that_cannot_be_booted_again_does_not_keep_others_from_it(
    silent, monkeypatch, cause
):
    harness, make = silent
    first_node, second_node = make(), make()
    if cause == "a defect":
        real = timeouts.callback_timeout

        def fails(session, node):
            if node.id == first_node:
                raise KeyError("a defect")
            return real(session, node)

        monkeypatch.setattr(timeouts, "callback_timeout", fails)
    else:
        harness.inside.change(Node, first_node, driver="of another conductor")
    assert 1 == retry(harness)
    assert ["waiting", "queued"] == [harness.last(node).state for node in (first_node, second_node)]
