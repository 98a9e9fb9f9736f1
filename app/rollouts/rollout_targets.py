"""Targets of rollouts: verbs, power states and `refresh`, each by the request for one node."""

from collections.abc import Mapping
from typing import Any

from sqlalchemy.orm import Session

from app.engine import power, provisioning, refreshes
from app.identity.caller import Caller
from app.lifecycle.provision_states import VERBS
from app.models import Node, Operation

#: Verbs that end or change an operation, or carry a secret of one node.
UNSUITABLE = ("abort", "unhold", "rescue")
TARGETS = (
    *(verb for verb in VERBS if verb not in UNSUITABLE),
    *power.TARGETS,
    refreshes.REFRESH,
)


def check(
    session: Session, node: Node, target: str, arguments: Mapping[str, object], caller: Caller
) -> str | None:
    """
    Check whether a node accepts a target now, without writing.

    Returns the errors in its steps, if it has some. Raises the errors of the request.
    """
    if target in power.TARGETS:
        power.check(session, node, target)
        return None
    if target == refreshes.REFRESH:
        refreshes.check(session, node)
        return None
    intent = provisioning.decide(session, node, target, arguments, caller)
    return "; ".join(intent.step_errors) or None


def request(
    session: Session, node: Node, target: str, arguments: Mapping[str, Any], caller: Caller
) -> Operation | None:
    """Request a target of a node; return its operation, if it has one. Raises its errors."""
    if target in power.TARGETS:
        return power.request(session, node, target, arguments.get("timeout"), caller)
    if target == refreshes.REFRESH:
        return refreshes.request(session, node, caller)
    return provisioning.request(session, node, target, arguments, caller)
