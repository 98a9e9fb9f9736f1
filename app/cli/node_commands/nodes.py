"""Commands that list and show nodes."""

from itertools import islice
from typing import Annotated

import typer

from app.cli.bulk import Where, filters_of
from app.cli.commands import Limit, Node, hold_kinds
from app.cli.rest import Api
from app.cli.terminal import styles
from app.cli.terminal.output import Document, Output

#: Columns of the table: name, state and trouble first.
TABLE = ("name", "provision_state", "power_state", "maintenance", "last_error", "uuid")
#: First fields in the document of a node.
FIRST = (
    "name", "uuid", "provision_state", "target_provision_state", "power_state", "last_error",
    "maintenance", "maintenance_reason", "fault",
)  # fmt: skip
COLUMNS = ("uuid", "name", "provision_state", "power_state", "maintenance")
#: Fields that indicate a failure.
SIGNS = ("provision_state", "fault", "last_error")
LONG = (
    *COLUMNS, "instance_uuid", "target_provision_state", "driver", "resource_class", "owner",
    "conductor", "fault", "retired", "retired_reason", "last_error", "provision_updated_at",
)  # fmt: skip


def list_nodes(
    api: Api,
    output: Output,
    *,
    expressions: Where = None,
    failed: Annotated[
        bool,
        typer.Option("--failed", help="Only those in a failed state, with a fault or a last error"),
    ] = False,
    retired: Annotated[bool | None, typer.Option(help="Only retired ones")] = None,
    maintenance: Annotated[bool | None, typer.Option(help="Only those in maintenance")] = None,
    associated: Annotated[bool | None, typer.Option(help="Only those with an instance")] = None,
    state: Annotated[str | None, typer.Option(help="Only those in this provision state")] = None,
    fault: Annotated[str | None, typer.Option(help="Only those with this fault")] = None,
    hold: Annotated[
        str | None,
        typer.Option(
            metavar="KIND", help="Only those with a hold of this kind", autocompletion=hold_kinds
        ),
    ] = None,
    driver: Annotated[str | None, typer.Option(help="Only those of this hardware type")] = None,
    resource_class: Annotated[str | None, typer.Option(help="Only those of this class")] = None,
    conductor: Annotated[
        str | None, typer.Option(help="Only those that this conductor is responsible for")
    ] = None,
    conductor_group: Annotated[str | None, typer.Option(help="Only those of this group")] = None,
    owner: Annotated[str | None, typer.Option(help="Only those of this project")] = None,
    lessee: Annotated[str | None, typer.Option(help="Only those lent to this project")] = None,
    shard: Annotated[
        str | None, typer.Option(help="Only those of these shards, separated by commas")
    ] = None,
    description: Annotated[
        str | None, typer.Option(help="Only those whose description contains this text")
    ] = None,
    sort: Annotated[str | None, typer.Option(metavar="FIELD[:desc]", help="Sort key")] = None,
    limit: Limit = None,
    long: Annotated[bool, typer.Option("--long", help="Show more fields")] = False,
) -> None:
    """List nodes."""
    columns = output.fields or (LONG if long else COLUMNS)
    table = () if long else TABLE
    requested_fields = {*columns, *(SIGNS if failed else ()), *(table if output.people else ())}
    key, _, direction = (sort or "").partition(":")
    filters = {
        "retired": retired, "maintenance": maintenance, "associated": associated,
        "provision_state": state, "fault": fault, "hold": hold, "driver": driver,
        "resource_class": resource_class, "conductor": conductor,
        "conductor_group": conductor_group, "owner": owner, "lessee": lessee, "shard": shard,
        "description_contains": description, **filters_of(expressions or ()),
    }  # fmt: skip
    nodes = api.every(
        "nodes", limit=None if failed else limit, fields=",".join(sorted(requested_fields)),
        sort_key=key or None, sort_dir=direction or None, **filters,
    )  # fmt: skip
    if failed:  # the API has no filter for it
        nodes = islice(filter(_in_trouble, nodes), limit)
    if output.people:
        if not long:
            nodes = (node | {"name": node["name"] or node["uuid"]} for node in nodes)
        output.items(nodes, columns, table)
    else:
        output.items(({name: node.get(name) for name in columns} for node in nodes), columns)


def _in_trouble(node: Document) -> bool:
    """Whether a node is in a failed state, has a fault, or its last operation failed."""
    failed = styles.of("provision_state", node["provision_state"]) == styles.TROUBLE
    return failed or bool(node["fault"] or node["last_error"])


def show(api: Api, output: Output, node: Node) -> None:
    """Show a node."""
    document = api.get("nodes", node, fields=",".join(output.fields) or None)
    other_fields = sorted(set(document) - {*FIRST, "links"})
    output.item(document, (*FIRST, *other_fields) if output.people else ())
