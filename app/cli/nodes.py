"""What nodes there are, and what is set of them."""

from enum import StrEnum
from typing import Annotated, Any

import typer

from app.cli import node_fields
from app.cli.commands import Node
from app.cli.output import Output
from app.cli.rest import Api, Document, Failure

COLUMNS = ("uuid", "name", "provision_state", "power_state", "maintenance")
LONG = (
    *COLUMNS, "instance_uuid", "target_provision_state", "driver", "resource_class", "owner",
    "conductor", "fault", "retired", "retired_reason", "last_error", "provision_updated_at",
)  # fmt: skip


class Switch(StrEnum):
    """On or off."""

    ON = "on"
    OFF = "off"


def list_nodes(
    api: Api,
    out: Output,
    *,
    retired: Annotated[bool | None, typer.Option(help="Only those that are to leave")] = None,
    maintenance: Annotated[bool | None, typer.Option(help="Only those in maintenance")] = None,
    associated: Annotated[bool | None, typer.Option(help="Only those with an instance")] = None,
    state: Annotated[str | None, typer.Option(help="Only those in this provision state")] = None,
    fault: Annotated[str | None, typer.Option(help="Only those with this fault")] = None,
    driver: Annotated[str | None, typer.Option(help="Only those of this hardware type")] = None,
    resource_class: Annotated[str | None, typer.Option(help="Only those of this class")] = None,
    conductor: Annotated[str | None, typer.Option(help="Only those that belong to it")] = None,
    conductor_group: Annotated[str | None, typer.Option(help="Only those of this group")] = None,
    owner: Annotated[str | None, typer.Option(help="Only those of this project")] = None,
    lessee: Annotated[str | None, typer.Option(help="Only those lent to this project")] = None,
    shard: Annotated[str | None, typer.Option(help="Only those of these shards, by commas")] = None,
    description: Annotated[
        str | None, typer.Option(help="Only those described so, in part")
    ] = None,
    sort: Annotated[str | None, typer.Option(metavar="FIELD[:desc]", help="The order")] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="At most so many")] = None,
    long: Annotated[bool, typer.Option("--long", help="More about each")] = False,
) -> None:
    """List nodes."""
    columns = out.fields or (LONG if long else COLUMNS)
    key, _, direction = (sort or "").partition(":")
    found = api.every(
        "nodes", limit=limit, fields=",".join(columns), retired=retired, maintenance=maintenance,
        associated=associated, provision_state=state, fault=fault, driver=driver,
        resource_class=resource_class, conductor=conductor, conductor_group=conductor_group,
        owner=owner, lessee=lessee, shard=shard, description_contains=description,
        sort_key=key or None, sort_dir=direction or None,
    )  # fmt: skip
    out.items(({name: each.get(name) for name in columns} for each in found), columns)


def show(api: Api, out: Output, node: Node) -> None:
    """Show a node."""
    out.item(api.get("nodes", node, fields=",".join(out.fields) or None))


def create(
    api: Api,
    out: Output,
    uuid: Annotated[str | None, typer.Option(help="Its UUID; else a new one")] = None,
    **values: Any,
) -> None:
    """Enroll a node."""
    if not values["driver"]:
        raise Failure("--driver: the hardware type is needed, as --driver redfish")
    body = node_fields.body(values) | ({"uuid": uuid} if uuid else {})
    made: Document = api.ask("POST", "nodes", body=body).json()
    out.item(made, COLUMNS)


def set_fields(
    api: Api,
    out: Output,
    node: Node,
    reset_interfaces: Annotated[
        bool, typer.Option("--reset-interfaces", help="With --driver: its default interfaces")
    ] = False,
    **values: Any,
) -> None:
    """Set fields of a node, all or none."""
    _change(api, out, node, node_fields.additions(values), reset_interfaces or None)


def unset_fields(api: Api, out: Output, node: Node, **values: Any) -> None:
    """Take fields of a node away, all or none."""
    _change(api, out, node, node_fields.removals(values))


def _change(
    api: Api, out: Output, node: str, patch: list[Document], reset: bool | None = None
) -> None:
    if not patch:
        raise Failure("nothing to change was named; --help says what there is")
    answer = api.ask("PATCH", "nodes", node, query={"reset_interfaces": reset}, body=patch)
    changed = ", ".join(dict.fromkeys(each["path"].split("/")[1] for each in patch))
    out.told(answer.json(), f"{node}: changed {changed}")


def delete(
    api: Api, out: Output, nodes: Annotated[list[str], typer.Argument(metavar="NODE...")]
) -> None:
    """Forget nodes."""
    for each in nodes:
        api.ask("DELETE", "nodes", each)
        out.told({"node": each, "deleted": True}, f"{each}: deleted")


def maintenance(
    api: Api,
    out: Output,
    node: Node,
    switch: Switch,
    reason: Annotated[str | None, typer.Option(help="Why nothing may be done to it")] = None,
) -> None:
    """Put a node into maintenance, or take it out."""
    if switch is Switch.ON:
        api.ask("PUT", "nodes", node, "maintenance", body={"reason": reason})
    elif reason is not None:
        raise Failure("--reason: only with on")
    else:
        api.ask("DELETE", "nodes", node, "maintenance")
    document = {"node": node, "maintenance": switch is Switch.ON, "maintenance_reason": reason}
    out.told(document, f"{node}: maintenance {switch}")
