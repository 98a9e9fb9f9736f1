"""Calls of the API about consoles, which a conductor answers itself (`app.engine.rpc`)."""

import base64
from collections.abc import Callable, Mapping

from app.errors import Conflict
from app.hardware import targets
from app.inventory import nodes
from app.models import Node
from app.runtime import Runtime
from drivers.core.consoles import GraphicalConsole, ProgramConsole
from drivers.core.driver import interfaces_of
from drivers.core.errors import NotSupported
from drivers.core.target import Target
from workers.consoles import history
from workers.consoles.hub import Hub, history_folder

#: Most bytes of history in an answer: it passes through Redis.
MOST = 256 << 10


def methods(hub: Hub) -> Mapping[str, Callable[..., object]]:
    """Return the calls that a conductor with these consoles answers, by name."""

    def get_console(runtime: Runtime, node: Node) -> dict[str, object]:
        target = _target_of(runtime, node)
        console = interfaces_of(target).console
        if isinstance(console, ProgramConsole):
            return hub.address(node.uuid)
        if isinstance(console, GraphicalConsole):
            return {"type": "vnc", **hub.facts(node.uuid)}
        return console.get_console(target)

    def open_console(runtime: Runtime, node: Node) -> dict[str, object]:
        if not node.console_enabled:
            raise Conflict(
                f"The console of node {node.uuid} is not enabled: PUT"
                f" /v1/nodes/{node.uuid}/states/console, or `ingot node console enable`, enables it"
            )
        console = interfaces_of(_target_of(runtime, node)).console
        if not isinstance(console, ProgramConsole | GraphicalConsole):
            raise NotSupported(
                f"console_interface {console.name!r} has no console that could be opened here:"
                " ipmitool-socat, redfish-serial and redfish-graphical have one"
            )
        return hub.facts(node.uuid)

    def read_console_history(
        runtime: Runtime, node: Node, *, since: int | None, until: int | None, size: int
    ) -> dict[str, object]:
        records, cut = history.read(
            history_folder(runtime), node.uuid, since=since, until=until, size=min(size, MOST)
        )
        return {
            "cut": cut,
            "records": [
                {
                    "kind": record.kind,
                    "at": record.at,
                    "data": base64.b64encode(record.data).decode(),
                    "place": f"{record.segment}:{record.offset:08d}",
                }
                for record in records
            ],
        }

    return {
        "get_console": get_console,
        "open_console": open_console,
        "read_console_history": read_console_history,
    }


def _target_of(runtime: Runtime, node: Node) -> Target:
    with runtime.reading() as session:
        target = targets.of_node(session, nodes.find(session, node.uuid))
    return targets.with_secrets(runtime, target)
