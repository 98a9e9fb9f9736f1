"""
Remote VIFs: attach and detach them by calls to the conductor of their node.

A VIF is recorded on its port before a conductor connects it, and removed from there after a
conductor has disconnected it. So after a crash in between, the record names every VIF that may be
connected, and the request may be repeated.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from sqlalchemy.orm import Session

from app.db.transactions import retrying
from app.engine import rpc
from app.errors import NodeLocked, ServiceError
from app.inventory import nodes
from app.inventory.connectivity import vifs
from app.models import Node
from app.requests.locked_nodes import retry_while_locked
from app.runtime import Runtime


def attach(runtime: Runtime, ident: str, vif: Mapping[str, Any], project: str | None) -> None:
    """
    Attach a VIF, and return when it is connected.

    project: of the caller, who may attach its VIFs only; None: all.

    Raises Invalid, NodeLocked, Conflict: as `vifs.attach`; the other errors of `rpc.call`. After an
    error of the conductor the VIF is detached again, if it can be disconnected.
    """
    networks = rpc.call(runtime, ident, "vif_networks", vif=vif["id"], project=project)
    _change(runtime, ident, lambda session, node: vifs.attach(session, node, vif, networks))
    try:
        rpc.call(runtime, ident, "plug_vif", vif=vif["id"])
    except rpc.RemoteError as error:
        if not isinstance(error, NodeLocked):
            with suppress(ServiceError):  # it stays recorded: the caller may detach it
                detach(runtime, ident, vif["id"])
        raise
    with runtime.transaction() as session:
        vifs.complete(session, nodes.lock(session, ident), vif["id"])


def detach(runtime: Runtime, ident: str, vif: str) -> None:
    """
    Disconnect a VIF, and detach it.

    Raises Invalid, NodeLocked: as `vifs.detach`; the other errors of `rpc.call`.
    """
    _change(runtime, ident, lambda session, node: vifs.attachment(session, node, vif))
    rpc.call(runtime, ident, "unplug_vif", vif=vif)
    _change(runtime, ident, lambda session, node: vifs.detach(session, node, vif))


def _change(runtime: Runtime, ident: str, work: Callable[[Session, Node], object]) -> None:
    """Run `work` on the locked row of a node, again while the node is reserved."""

    def attempt() -> None:
        with runtime.transaction() as session:
            work(session, nodes.lock(session, ident))

    retry_while_locked(runtime.settings.conductor, lambda: retrying(attempt))
