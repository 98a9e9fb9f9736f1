"""Commands for holds: set, list, show, extend and end them."""

from itertools import islice
from typing import Annotated

import typer

from app.cli import bulk
from app.cli.bulk import Nodes, NodeSelection, Outcome
from app.cli.commands import Limit, hold_kinds
from app.cli.fields import change
from app.cli.resources import checked_uuid
from app.cli.rest import Api
from app.cli.terminal import times
from app.cli.terminal.errors import Usage
from app.cli.terminal.output import Document, Output, moment
from app.cli.terminal.times import Since

COLUMNS = (
    "uuid", "node_uuid", "kind", "user_name", "owner", "reason", "created_at", "expires_at",
)  # fmt: skip

HoldArgument = Annotated[str, typer.Argument(metavar="UUID", help="UUID of the hold")]
Until = Annotated[
    str | None, typer.Option(metavar="TIME", help="Its expiry, as 2026-01-31T12:00:00Z")
]
For = Annotated[
    str | None, typer.Option("--for", metavar="TIME", help="Its duration from now on, as 4h or 2d")
]


def create(
    api: Api,
    output: Output,
    *,
    nodes: Nodes = None,
    kind: Annotated[
        str,
        typer.Option(help="scheduling, hardware or investigation", autocompletion=hold_kinds),
    ],
    reason: Annotated[str, typer.Option(help="The reason, which refused callers read")],
    until: Until = None,
    hold_duration: For = None,
    **selection_options: object,
) -> None:
    """Set a hold on nodes."""
    body = {"kind": kind, "reason": reason, **_expiry(until, hold_duration)}

    def act(api: Api, node: str) -> Outcome:
        hold: Document = api.request("POST", "nodes", node, "holds", body=body).json()
        return Outcome(hold, f"{node}: {kind} hold {hold['uuid']}, {_until(hold)}")

    bulk.for_each_node(api, output, NodeSelection.of(nodes, selection_options), act)


def list_holds(
    api: Api,
    output: Output,
    *,
    node: Annotated[str | None, typer.Option(help="Only those on this node")] = None,
    kind: Annotated[
        str | None, typer.Option(help="Only those of this kind", autocompletion=hold_kinds)
    ] = None,
    owner: Annotated[str | None, typer.Option(help="Only those set by this project")] = None,
    user: Annotated[str | None, typer.Option(help="Only those set by this user, an id")] = None,
    expired_before: Annotated[
        str | None, typer.Option(metavar="TIME", help="Only those that expire before this time")
    ] = None,
    since: Since = None,
    limit: Limit = None,
) -> None:
    """List holds, the oldest first."""
    path = ("nodes", node, "holds") if node else ("holds",)
    query = {"kind": kind, "owner": owner, "user": user, "expired_before": expired_before}
    holds = times.recent(api.every(*path, limit=None if since else limit, **query), since)
    output.items(islice(holds, limit), COLUMNS)


def show(api: Api, output: Output, uuid: HoldArgument) -> None:
    """Show a hold."""
    output.item(api.get("holds", _uuid(uuid)))


def extend(
    api: Api,
    output: Output,
    uuid: HoldArgument,
    *,
    until: Until = None,
    hold_duration: For = None,
    unlimited: Annotated[bool, typer.Option("--unlimited", help="It has no expiry")] = False,
    reason: Annotated[str | None, typer.Option(help="A new reason")] = None,
) -> None:
    """Change the expiry of a hold, its reason, or both."""
    if unlimited and (until or hold_duration):
        raise Usage("--unlimited: not with --until or --for")
    values = {**_expiry(until, hold_duration), **({"reason": reason} if reason else {})}
    patch = [change("add", name, value=value) for name, value in values.items()]
    if unlimited:
        patch.append(change("remove", "expires_at"))
    if not patch:
        raise Usage("nothing to change was named; --help says what there is")
    hold = api.request("PATCH", "holds", _uuid(uuid), body=patch).json()
    output.result(hold, f"{uuid}: {hold['kind']} hold, {_until(hold)}")


def delete(
    api: Api,
    output: Output,
    uuids: Annotated[list[str], typer.Argument(metavar="UUID...", help="UUIDs of holds")],
) -> None:
    """End holds."""
    for uuid in map(_uuid, uuids):
        api.request("DELETE", "holds", uuid)
        output.result({"which": uuid, "deleted": True}, f"{uuid}: ended")


def _expiry(until: str | None, hold_duration: str | None) -> Document:
    """Return the field of the expiry, if one is given. Raises Usage."""
    if until and hold_duration:
        raise Usage("--until, --for: one of both")
    if not hold_duration:
        return {"expires_at": until} if until else {}
    return {"expires_in": times.seconds_of("--for", hold_duration)}


def _until(hold: Document) -> str:
    return f"until {moment(hold['expires_at'])}" if hold["expires_at"] else "until it is ended"


def _uuid(uuid: str) -> str:
    return checked_uuid(uuid, "hold", "hold")
