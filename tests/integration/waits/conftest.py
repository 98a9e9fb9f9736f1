"""Nodes in each wait state."""

import pytest

from app.db.clock import after
from app.lifecycle.provision_states import Kind, of_kind
from app.models import Node, Operation
from app.reports import why
from tests.integration.harness import Acme, Harness, requested
from tests.unit.drivers.machines import image_server, scripted_agent
from workers.periodic import reconciler
from workers.periodic.database_contact import Contact

BURN = requested("deploy", "burn")
CRAWL, STROLL = requested("management", "crawl"), requested("management", "stroll")
HOLD = requested("power", "hold")


def in_deployment(step):
    return {**step, "args": {}, "priority": 150}


ALL = sorted(of_kind(Kind.WAIT, Kind.HOLD))
#: wait or hold state -> (previous state, verb, arguments) that lead to it
WAYS = {
    "clean wait": ("manageable", "clean", {"clean_steps": [BURN]}),
    "wait call-back": ("available", "active", {}),
    "inspect wait": ("manageable", "inspect", {}),
    "rescue wait": ("active", "rescue", {"rescue_password": "open sesame"}),
    "service wait": ("active", "service", {"service_steps": [BURN]}),
    "clean hold": ("manageable", "clean", {"clean_steps": [HOLD]}),
    "deploy hold": ("available", "active", {"deploy_steps": [in_deployment(HOLD)]}),
    "service hold": ("active", "service", {"service_steps": [HOLD]}),
}
#: state -> function of a step: (previous state, verb, arguments) that run the step in that state
STEPS = {
    "clean wait": lambda step: ("manageable", "clean", {"clean_steps": [step]}),
    "wait call-back": lambda step: ("available", "active", {"deploy_steps": [in_deployment(step)]}),
    "service wait": lambda step: ("active", "service", {"service_steps": [step]}),
}


class Waiting(Harness):
    """Harness that brings nodes into wait states; the deployed image is available."""

    def arrive(self, state, way=None):
        """Create a node, and bring it into a state; return its id."""
        origin, verb, arguments = way or WAYS[state]
        node = self.with_agent(
            origin, instance_info=self.image, rescue_interface="agent", inspect_interface="agent",
            power_state="power on" if origin == "active" else "power off",
        )  # fmt: skip
        assert state == self.do(node, verb, **arguments)
        Acme.did.clear()
        return node

    def expire(self, node):
        """Let the deadline pass, and check for due waits."""
        self.inside.change(Operation, self.last(node).uuid, deadline_at=after(-1))
        return self.look(node)

    def look(self, node):
        """Check for due waits, as a conductor does."""
        reconciler.reconcile(self.inside.runtime, Contact(timeout=0))
        self.run()
        return self.inside.read(node)

    def why(self, node):
        with self.inside.runtime.reading() as session:
            return why.explain(session, session.get_one(Node, node))


@pytest.fixture
def make(inside):
    """Factory of harnesses with given settings."""
    views = []
    with scripted_agent() as agent, image_server() as server:
        server.files["/disk.raw"] = bytes(512)

        def begin(**settings):
            inside.environ |= {"INGOT_AGENT_REQUIRE_TLS": "false"}
            inside.environ |= {f"INGOT_CONDUCTOR_{name}": value for name, value in settings.items()}
            view = inside.another()
            views.append(view)
            harness = Waiting(view, agent)
            harness.image = {"image_source": f"{server.url}/disk.raw", "image_checksum": "a" * 64}
            for flow in ("clean", "deploy", "service"):
                harness.offer(flow, ("deploy", "burn", 0, {"abortable": True}))
            return harness

        yield begin
    for view in views:
        view.close()
