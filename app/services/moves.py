"""
Moves: the one function that changes a provision state, and what belongs to certain moves.
"""

from collections.abc import Callable, Mapping

from sqlalchemy.orm import Session

from app.db import utcnow
from app.errors import IllegalMove
from app.models import AgentRecord, Node, Operation
from app.states import MACHINE, Event, Kind, State

CLEAN_FAILURE = "clean failure"

#: Kind of operation -> Ironic's word for it in the history of a node.
HISTORY_TYPE: Mapping[str, str] = {
    "manage": "verify",
    "provide": "cleaning",
    "clean": "cleaning",
    "active": "deploying",
    "rebuild": "deploying",
    "deleted": "unprovision",
    "inspect": "introspection",
    "adopt": "adoption",
    "service": "servicing",
    "power": "conductor",
}


def move(node: Node, event: Event, target: State | None = None) -> None:
    """
    Let `event` happen to `node`: the only way in which a provision state changes.

    target: where the flow that begins leads, when that is not what the table says. Within a flow
    the target is kept. Raises IllegalMove. The caller has locked the row.
    """
    old = MACHINE[State(node.provision_state)]
    if event not in old.moves:
        raise IllegalMove(event, node.uuid, node.provision_state)
    state = old.moves[event]
    new = MACHINE[state]
    node.provision_state = state
    if new.kind is Kind.STABLE:
        node.target_provision_state = None
    elif target is not None or old.target != new.target or old.kind is Kind.STABLE:
        node.target_provision_state = target or new.target
    node.provision_updated_at = node.updated_at = utcnow()


def settle(session: Session, node: Node, state: State, event: Event, operation: Operation) -> None:
    """What belongs to an event in a state, beyond the move; rows of one table."""
    for effect in _EFFECTS.get((state, event), ()):
        effect(session, node, operation)


def _wipe_instance(session: Session, node: Node, operation: Operation) -> None:
    """Nothing of the tenant is left, whether the tear-down went well or not."""
    node.instance_info = {}
    node.instance_uuid = node.instance_name = None
    gone = {"instance", "root_uuid_or_disk_id", "is_whole_disk_image", "deploy_boot_mode"}
    internal = node.driver_internal_info
    if internal.get("automatic_lessee"):
        node.lessee = None
        gone |= {"automatic_lessee"}
    node.driver_internal_info = {key: value for key, value in internal.items() if key not in gone}


def _forget_agent(session: Session, node: Node, operation: Operation) -> None:
    """A flow is over: the agent that took part in it is not to be trusted any longer."""
    agent = session.get(AgentRecord, node.id)
    if agent is not None:
        forget_agent(agent)


def _clean_failed(session: Session, node: Node, operation: Operation) -> None:
    """A failed clean always puts the node into maintenance (spec implement-cleaning-states)."""
    node.maintenance, node.fault = True, CLEAN_FAILURE
    node.maintenance_reason = node.maintenance_reason or node.last_error


def _clean_succeeded(session: Session, node: Node, operation: Operation) -> None:
    """Success clears the maintenance that a failed clean has set, and no other."""
    if node.fault == CLEAN_FAILURE:
        node.maintenance, node.fault, node.maintenance_reason = False, None, None


_EFFECTS: Mapping[tuple[State, Event], tuple[Callable[[Session, Node, Operation], None], ...]] = {
    (State.DELETING, Event.CLEAN): (_wipe_instance,),
    (State.DELETING, Event.FAIL): (_wipe_instance,),
    (State.CLEANING, Event.DONE): (_clean_succeeded, _forget_agent),
    (State.CLEANING, Event.MANAGE): (_clean_succeeded, _forget_agent),
    (State.CLEANING, Event.FAIL): (_clean_failed, _forget_agent),
    (State.DEPLOYING, Event.DONE): (_forget_agent,),
    (State.DEPLOYING, Event.FAIL): (_forget_agent,),
}


def forget_agent(agent: AgentRecord) -> None:
    """The machine is off or starts anew: what runs there next must prove itself again."""
    agent.url = agent.verify_ca = None
    agent.steps, agent.hardware_manager_version = {}, {}
    if not agent.pregenerated:
        agent.token = None
