"""Commands that create, change and delete nodes, and their maintenance."""

from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Annotated

import typer

from app.cli import bulk
from app.cli.bulk import Nodes, NodeSelection, Outcome
from app.cli.driver_keys import DriverKeys
from app.cli.node_commands.node_fields import FIELDS
from app.cli.node_commands.nodes import COLUMNS
from app.cli.rest import Api
from app.cli.terminal.errors import Usage
from app.cli.terminal.output import Document, Output
from app.text.masking import is_secret

#: Ends of the keys of `driver_info` by which the service reaches a BMC, beside secrets.
ACCESS = ("_address", "_username", "_port", "_system_id")


class Switch(StrEnum):
    """On or off."""

    ON = "on"
    OFF = "off"


def create(
    api: Api,
    output: Output,
    uuid: Annotated[str | None, typer.Option(help="Its UUID; else a new one")] = None,
    **values: object,
) -> None:
    """Enroll a node."""
    body = FIELDS.body(values) | ({"uuid": uuid} if uuid else {})
    node: Document = api.request("POST", "nodes", body=body).json()
    _warn_of_keys(api, node["driver"], body.get("driver_info", {}))
    output.item(node, COLUMNS)


def _warn_of_keys(api: Api, driver: str, keys: Iterable[str]) -> None:
    """Warn of keys of `driver_info` that the driver does not read, and that resemble one."""
    for problem in DriverKeys(api).problems(driver, keys):
        typer.echo(f"ingot: {problem}", err=True)


def set_fields(
    api: Api,
    output: Output,
    *,
    nodes: Nodes = None,
    reset_interfaces: Annotated[
        bool, typer.Option("--reset-interfaces", help="With --driver: use its default interfaces")
    ] = False,
    **values: object,
) -> None:
    """Set fields of nodes; for each node all of them or none."""
    selection = NodeSelection.of(nodes, values)
    patch = FIELDS.additions(values)
    harm = "change credentials" if _has_access(patch) else ""
    _change(api, output, selection, patch, reset_interfaces or None, destroys=harm)
    if selection.only_node and (keys := _driver_keys(patch)):
        driver = api.get("nodes", selection.only_node, fields="driver")["driver"]
        _warn_of_keys(api, driver, keys)


def _driver_keys(patch: Sequence[Document]) -> list[str]:
    """Return the keys of `driver_info` that a patch changes."""
    paths = (change["path"].split("/") for change in patch)
    return [key[0] for _, field, *key in paths if field == "driver_info" and key]


def _has_access(patch: Sequence[Document]) -> bool:
    """Whether a patch changes how the service reaches BMCs, so that a mistake locks it out."""
    return any(is_secret(key) or key.endswith(ACCESS) for key in _driver_keys(patch))


def unset_fields(api: Api, output: Output, *, nodes: Nodes = None, **values: object) -> None:
    """Remove fields of nodes; for each node all of them or none."""
    selection = NodeSelection.of(nodes, values)
    patch = FIELDS.removals(values)
    harm = "remove credentials" if _has_access(patch) else ""
    _change(api, output, selection, patch, destroys=harm)


def _change(
    api: Api,
    output: Output,
    selection: NodeSelection,
    patch: list[Document],
    reset: bool | None = None,
    *,
    destroys: str = "",
) -> None:
    if not patch:
        raise Usage("nothing to change was named; --help says what there is")
    field_names = ", ".join(dict.fromkeys(change["path"].split("/")[1] for change in patch))

    def act(api: Api, node: str) -> Outcome:
        answer = api.request("PATCH", "nodes", node, query={"reset_interfaces": reset}, body=patch)
        return Outcome(answer.json(), f"{node}: changed {field_names}")

    bulk.for_each_node(api, output, selection, act, destroys=destroys)


def delete(api: Api, output: Output, *, nodes: Nodes = None, **selection_options: object) -> None:
    """Delete nodes."""

    def act(api: Api, node: str) -> Outcome:
        api.request("DELETE", "nodes", node)
        return Outcome({"node": node, "deleted": True}, f"{node}: deleted")

    bulk.for_each_node(
        api, output, NodeSelection.of(nodes, selection_options), act, destroys="delete"
    )


def maintenance(
    api: Api,
    output: Output,
    *,
    nodes: Nodes = None,
    switch: Switch,
    reason: Annotated[str | None, typer.Option(help="The reason for the maintenance")] = None,
    **selection_options: object,
) -> None:
    """Put nodes into maintenance, or take them out."""
    if switch is Switch.OFF and reason is not None:
        raise Usage("--reason: only with on")

    def act(api: Api, node: str) -> Outcome:
        method, body = ("PUT", {"reason": reason}) if switch is Switch.ON else ("DELETE", None)
        api.request(method, "nodes", node, "maintenance", body=body)
        document = {"node": node, "maintenance": switch is Switch.ON, "maintenance_reason": reason}
        return Outcome(document, f"{node}: maintenance {switch}")

    bulk.for_each_node(api, output, NodeSelection.of(nodes, selection_options), act)
