"""A fleet whose nodes a rollout concerns."""

import os
import signal

import pytest
from sqlalchemy import select

from app.identity.caller import Caller
from app.models import Node, Operation, Rollout, RolloutNode
from app.process import kill_points
from app.rollouts import rollout_plan, rollout_progress, rollout_waves, rollouts
from app.rollouts.rollout_plan import Strategy
from tests.integration.harness import Harness, requested

CALLER = Caller(user_id="u-1", user_name="Ada", request_id="req-1")
POLISH, STROLL = (requested("management", name) for name in ("polish", "stroll"))
ONE_BY_ONE = Strategy()


class Fleet(Harness):
    """Nodes in rollouts."""

    def plan(self, target="clean", strategy=ONE_BY_ONE, denial=lambda _owner, _lessee: None):
        with self.inside.runtime.reading() as session:
            query = select(*rollout_plan.columns(strategy))
            return rollout_plan.plan(session, query, target, strategy, denial)

    def create(self, target="clean", steps=(POLISH,), caller=CALLER, **strategy):
        """Create a rollout over all nodes; return its id."""
        limits = Strategy(**strategy)
        fields = {
            "target": target, "filters": {}, "strategy": limits.document(),
            "arguments": {f"{target}_steps": list(steps)} if steps else {},
        }  # fmt: skip
        plan = self.plan(target, limits)
        with self.inside.runtime.transaction() as session:
            return rollouts.create(session, plan, fields, caller).id

    def advance(self, rollout, times=1):
        for _ in range(times):
            rollout_waves.advance_all(self.inside.runtime)
            self.run()
        return self.of(rollout)

    def of(self, rollout):
        with self.inside.runtime.reading() as session:
            return session.get_one(Rollout, rollout)

    def summary(self, rollout):
        with self.inside.runtime.reading() as session:
            return rollout_progress.summary(session, session.get_one(Rollout, rollout))

    def members(self, rollout):
        with self.inside.runtime.reading() as session:
            of = select(RolloutNode).where(RolloutNode.rollout_id == rollout)
            return list(session.scalars(of.order_by(RolloutNode.id)))

    def states(self, rollout):
        return [member.state for member in self.members(rollout)]

    def request(self, rollout, event):
        with self.inside.runtime.transaction() as session:
            rollouts.request(session, self.of(rollout).uuid, event)

    def operations(self):
        """Number of operations of each node, in order."""
        with self.inside.runtime.reading() as session:
            nodes = session.scalars(select(Node.id).order_by(Node.id))
            node_ids = list(session.scalars(select(Operation.node_id)))
            return [node_ids.count(node) for node in nodes]


@pytest.fixture
def fleet(inside):
    return Fleet(inside)


def die_in(inside, point, advance):
    """Call `advance` in a process that dies at a kill point; return whether it died."""
    inside.runtime.engine.dispose()
    child = os.fork()
    if child == 0:
        try:
            another = Fleet(inside.another())
            kill_points.arm([f"any:{point}=die"], "c-1")
            advance(another)
        finally:
            os._exit(0)
    _, status = os.waitpid(child, 0)
    return os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
