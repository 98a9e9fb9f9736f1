"""
The path of a conductor to its BMCs: lost, or are the machines themselves away?

A conductor that reaches none of many BMCs asks its neighbours for some of the same ones. Only if a
neighbour reads what it cannot read itself is its own path lost: then others get its nodes, until it
reads one of these BMCs again. If no conductor reads them, nothing is handed over.
"""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from sqlalchemy import select

from app.cluster import conductors
from app.cluster.hash_ring import serving
from app.engine import rpc
from app.errors import BadGateway, ServiceError
from app.hardware import targets
from app.models import Node
from app.observe import log
from app.runtime import Runtime
from drivers.core.errors import HardwareError, SecretsUnavailable, Unreachable

logger = log.get(__name__)

#: Fewest BMCs of a power sync, of which none was reached, that raise a suspicion.
FEWEST = 5
#: BMCs about which neighbours are asked.
SAMPLE = 3
#: Seconds for the answer of a neighbour.
TIMEOUT = 30.0
#: Seconds between two own reads while the path is lost.
RETRY = 10.0
#: Call that reads the BMC of a node, and changes nothing.
READ = "get_boot_device"


@dataclass(slots=True)
class Sweep:
    """BMCs that a power sync has reached."""

    reached: int = 0
    unreachable: list[Node] = field(default_factory=list)

    def watch(self, node: Node, state: object) -> None:
        """Note the power state of a node, or the error of its read."""
        if isinstance(state, Unreachable):
            self.unreachable.append(node)
        else:
            self.reached += 1

    @property
    def is_suspicious(self) -> bool:
        return not self.reached and len(self.unreachable) >= FEWEST


@dataclass(slots=True)
class BmcNetwork:
    """
    The path of this conductor to its BMCs.

    report: receives why it can do no new work, or None if it can.
    """

    runtime: Runtime
    conductor: str  # name
    report: Callable[[str | None], None]
    _ended: threading.Event = field(default_factory=threading.Event)

    def judge(self, sweep: Sweep) -> None:
        """Ask the neighbours, if the sweep is suspicious; report a lost path until it is back."""
        if not sweep.is_suspicious:
            return
        sample = sweep.unreachable[:SAMPLE]
        neighbour = self._neighbour_that_reads(sample)
        if neighbour is None:
            return
        count = len(sweep.unreachable)
        self.report(f"it reaches none of {count} BMCs, and conductor {neighbour} does")
        threading.Thread(
            target=self._await_return, args=([node.uuid for node in sample],), daemon=True
        ).start()

    def _neighbour_that_reads(self, nodes: Sequence[Node]) -> str | None:
        """Return the name of a conductor that reads the BMC of one of the nodes."""
        living_members = conductors.members(self.runtime)
        for node in nodes:
            for member in serving(node.driver, node.conductor_group, living_members):
                if member.name == self.conductor:
                    continue
                try:
                    answer = rpc.ask(self.runtime, member, node.uuid, READ, TIMEOUT)
                except ServiceError:  # the broker is away: nothing is known
                    return None
                # an error of the BMC is an answer of the BMC
                if "answer" in answer or answer.get("status") == BadGateway.status:
                    return member.name
        return None

    def _await_return(self, nodes: Sequence[str]) -> None:
        """Read the BMCs until one answers, or their nodes are gone."""
        while not self._ended.wait(RETRY):
            try:
                if any(map(self._reads, nodes)):
                    self.report(None)
                    return
            except Exception:  # the database is away, or a driver has a defect
                logger.exception("bmc_network.not_read")

    def _reads(self, uuid: str) -> bool:
        """Whether the BMC of a node answers, or there is no such node."""
        with self.runtime.reading() as session:
            node = session.scalar(select(Node).where(Node.uuid == uuid))
            if node is None:
                return True
            session.expunge_all()
        try:
            target = targets.build(self.runtime, node)
            target.driver.power.get_power_state(target)
        except (Unreachable, SecretsUnavailable):
            return False
        except HardwareError:
            return True
        return True
