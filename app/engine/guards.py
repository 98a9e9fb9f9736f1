"""
Guards: preconditions of a verb on the node, one function each.

A verb lists its guards in order: a client gets the error of the first one that fails. A guard
returns or raises an API error, and writes nothing.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from sqlalchemy.orm import Session

from app.cluster import conductors
from app.errors import Conflict, InMaintenance, Invalid, NodeProtected
from app.hardware import targets
from app.inventory import holds
from app.lifecycle.hold_kinds import Effect
from app.lifecycle.provision_states import MACHINE, Event, State
from app.models import Fault, Node
from app.runtime import runtime_of
from drivers.core.capabilities import boot_mode
from drivers.core.driver import interfaces_of
from drivers.core.errors import HardwareError, InvalidDriverInfo
from drivers.core.target import Target


@dataclass
class Candidate:
    """A requested verb and its node."""

    session: Session
    node: Node
    verb: str  # in the caller's spelling
    event: Event

    @cached_property
    def target(self) -> Target:
        return targets.of_node(self.session, self.node)


Guard = Callable[[Candidate], None]


def not_in_maintenance(candidate: Candidate) -> None:
    """
    Refuse a node in maintenance; but a failed clean, which has set it, may be followed by another.

    So it is in `clean failed` and, after `manage`, in `manageable`.
    """
    node = candidate.node
    moves = MACHINE[State(node.provision_state)].moves
    starts_clean = moves.get(candidate.event) is State.CLEANING
    cleans_again = node.fault == Fault.CLEAN_FAILURE and starts_clean
    if node.maintenance and not cleans_again:
        raise InMaintenance(candidate.verb, node.uuid)


def not_in_maintenance_by_settings(candidate: Candidate) -> None:
    """Refuse a node in maintenance, unless settings allow provisioning in maintenance."""
    if not runtime_of(candidate.session).settings.conductor.allow_provisioning_in_maintenance:
        not_in_maintenance(candidate)


def not_restored(candidate: Candidate) -> None:
    """Refuse a node that an operator has not yet checked after a database restore."""
    node = candidate.node
    if node.maintenance and node.fault == Fault.RESTORED:
        raise InMaintenance(candidate.verb, node.uuid)


def not_protected(candidate: Candidate) -> None:
    if candidate.node.protected:
        raise NodeProtected(candidate.node.uuid)


def not_retired(candidate: Candidate) -> None:
    """
    Refuse to bring a retired node into service (spec node-retirement).

    A rebuild does so in `error` only, where the tear-down has removed the instance; elsewhere, the
    tenant has the node already.
    """
    node, event = candidate.node, candidate.event
    tenants = event is Event.REBUILD and node.provision_state != State.ERROR
    if node.retired and not tenants:
        next_state = MACHINE[State(node.provision_state)].moves[event]
        destination = MACHINE[next_state].target or next_state
        raise Conflict(
            f"Node {node.uuid} is retired and cannot become {destination}; first set its field"
            " 'retired' to false."
        )


def service_not_in_maintenance(candidate: Candidate) -> None:
    """Refuse to abandon a failed service of a node in maintenance."""
    node = candidate.node
    if node.provision_state == State.SERVICE_FAIL and node.maintenance:
        raise Conflict(f"Node {node.uuid} is in maintenance: its service cannot be aborted.")


def service_not_held(candidate: Candidate) -> None:
    """Refuse to abandon a failed service of a held node: its cleanup is a new operation."""
    if candidate.node.provision_state == State.SERVICE_FAIL:
        holds.check(candidate.session, candidate.node, Effect.OPERATIONS)


def served(candidate: Candidate) -> None:
    """
    Require a live conductor that serves the node.

    Raises Unavailable.
    """
    conductors.require_served(candidate.session, candidate.node)


def interfaces_valid(*kinds: str) -> Guard:
    """Build a guard that validates these interfaces with the node's `driver_info`."""

    def interfaces_valid(candidate: Candidate) -> None:
        target = candidate.target
        for kind in kinds:
            if kind == "boot" and not target.options["agent"]["manage_agent_boot"]:
                continue
            try:
                interfaces_of(target).validate(kind, target)
            except HardwareError as error:
                raise Invalid(
                    f"Failed to validate {kind} interface of node {target.uuid}: {error}"
                ) from error

    return interfaces_valid


def boot_mode_allowed(candidate: Candidate) -> None:
    """Refuse to deploy with malformed capabilities, or in a boot mode that settings forbid."""
    target = candidate.target
    try:
        mode = boot_mode(target)
    except InvalidDriverInfo as error:
        raise Invalid(f"Failed to validate node {target.uuid}: {error}") from error
    if mode in target.options["conductor"]["disallowed_deployment_boot_modes"]:
        raise Invalid(
            f"Boot mode {mode} of node {target.uuid} is not deployed"
            " ([conductor]disallowed_deployment_boot_modes)"
        )
