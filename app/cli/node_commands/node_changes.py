"""Commands that create, change and delete nodes, and their maintenance."""

from enum import StrEnum
from typing import Annotated, Any

import typer

from app.cli import bulk
from app.cli.bulk import Chosen, Nodes, Outcome
from app.cli.node_commands.node_fields import FIELDS
from app.cli.rest import Api
from app.cli.terminal.errors import Usage
from app.cli.terminal.output import Document, Output

#: Fields shown of a new node.
COLUMNS = ("uuid", "name", "provision_state", "power_state", "maintenance")


class Switch(StrEnum):
    """On or off."""

    ON = "on"
    OFF = "off"


def create(
    api: Api,
    out: Output,
    uuid: Annotated[str | None, typer.Option(help="Its UUID; else a new one")] = None,
    **values: Any,
) -> None:
    """Enroll a node."""
    body = FIELDS.body(values) | ({"uuid": uuid} if uuid else {})
    made: Document = api.request("POST", "nodes", body=body).json()
    out.item(made, COLUMNS)


def set_fields(
    api: Api,
    out: Output,
    *,
    nodes: Nodes = None,
    reset_interfaces: Annotated[
        bool, typer.Option("--reset-interfaces", help="With --driver: use its default interfaces")
    ] = False,
    **values: Any,
) -> None:
    """Set fields of nodes; for each node all of them or none."""
    chosen = Chosen.of(nodes, values)
    _change(api, out, chosen, FIELDS.additions(values), reset_interfaces or None)


def unset_fields(api: Api, out: Output, *, nodes: Nodes = None, **values: Any) -> None:
    """Remove fields of nodes; for each node all of them or none."""
    chosen = Chosen.of(nodes, values)
    _change(api, out, chosen, FIELDS.removals(values))


def _change(
    api: Api, out: Output, chosen: Chosen, patch: list[Document], reset: bool | None = None
) -> None:
    if not patch:
        raise Usage("nothing to change was named; --help says what there is")
    changed = ", ".join(dict.fromkeys(each["path"].split("/")[1] for each in patch))

    def act(api: Api, node: str) -> Outcome:
        answer = api.request("PATCH", "nodes", node, query={"reset_interfaces": reset}, body=patch)
        return Outcome(answer.json(), f"{node}: changed {changed}")

    bulk.each(api, out, chosen, act)


def delete(api: Api, out: Output, *, nodes: Nodes = None, **choosing: Any) -> None:
    """Delete nodes."""

    def act(api: Api, node: str) -> Outcome:
        api.request("DELETE", "nodes", node)
        return Outcome({"node": node, "deleted": True}, f"{node}: deleted")

    bulk.each(api, out, Chosen.of(nodes, choosing), act, destroys="delete")


def maintenance(
    api: Api,
    out: Output,
    *,
    nodes: Nodes = None,
    switch: Switch,
    reason: Annotated[str | None, typer.Option(help="The reason for the maintenance")] = None,
    **choosing: Any,
) -> None:
    """Put nodes into maintenance, or take them out."""
    if switch is Switch.OFF and reason is not None:
        raise Usage("--reason: only with on")

    def act(api: Api, node: str) -> Outcome:
        method, body = ("PUT", {"reason": reason}) if switch is Switch.ON else ("DELETE", None)
        api.request(method, "nodes", node, "maintenance", body=body)
        document = {"node": node, "maintenance": switch is Switch.ON, "maintenance_reason": reason}
        return Outcome(document, f"{node}: maintenance {switch}")

    bulk.each(api, out, Chosen.of(nodes, choosing), act)
