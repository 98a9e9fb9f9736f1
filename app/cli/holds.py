"""Commands for holds: set, list, show, extend and end them."""

import re
from typing import Annotated, Any

import typer

from app.cli import bulk
from app.cli.bulk import Chosen, Nodes, Outcome
from app.cli.commands import hold_kinds
from app.cli.resources import Limit
from app.cli.rest import Api
from app.cli.terminal.errors import Usage
from app.cli.terminal.output import Document, Output, moment
from app.cli.terminal.tables import UUID

COLUMNS = (
    "uuid", "node_uuid", "kind", "user_name", "owner", "reason", "created_at", "expires_at",
)  # fmt: skip
#: Unit of a duration -> its seconds.
UNITS = {"m": 60, "h": 3600, "d": 86400}

Which = Annotated[str, typer.Argument(metavar="UUID", help="UUID of the hold")]
Until = Annotated[
    str | None, typer.Option(metavar="TIME", help="Its expiry, as 2026-01-31T12:00:00Z")
]
For = Annotated[
    str | None, typer.Option("--for", metavar="TIME", help="Its duration from now on, as 4h or 2d")
]


def create(
    api: Api,
    out: Output,
    *,
    nodes: Nodes = None,
    kind: Annotated[
        str,
        typer.Option(help="scheduling, hardware or investigation", autocompletion=hold_kinds),
    ],
    reason: Annotated[str, typer.Option(help="The reason, which refused callers read")],
    until: Until = None,
    lasting: For = None,
    **choosing: Any,
) -> None:
    """Set a hold on nodes."""
    body = {"kind": kind, "reason": reason, **_expiry(until, lasting)}

    def act(api: Api, node: str) -> Outcome:
        made: Document = api.request("POST", "nodes", node, "holds", body=body).json()
        return Outcome(made, f"{node}: {kind} hold {made['uuid']}, {_until(made)}")

    bulk.each(api, out, Chosen.of(nodes, choosing), act)


def list_holds(
    api: Api,
    out: Output,
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
    limit: Limit = None,
) -> None:
    """List holds, the oldest first."""
    path = ("nodes", node, "holds") if node else ("holds",)
    query = {"kind": kind, "owner": owner, "user": user, "expired_before": expired_before}
    out.items(api.every(*path, limit=limit, **query), COLUMNS)


def show(api: Api, out: Output, which: Which) -> None:
    """Show a hold."""
    out.item(api.get("holds", _uuid(which)))


def extend(
    api: Api,
    out: Output,
    which: Which,
    *,
    until: Until = None,
    lasting: For = None,
    unlimited: Annotated[bool, typer.Option("--unlimited", help="It has no expiry")] = False,
    reason: Annotated[str | None, typer.Option(help="A new reason")] = None,
) -> None:
    """Change the expiry of a hold, its reason, or both."""
    if unlimited and (until or lasting):
        raise Usage("--unlimited: not with --until or --for")
    values = {**_expiry(until, lasting), **({"reason": reason} if reason else {})}
    patch = [{"op": "add", "path": f"/{name}", "value": each} for name, each in values.items()]
    if unlimited:
        patch.append({"op": "remove", "path": "/expires_at"})
    if not patch:
        raise Usage("nothing to change was named; --help says what there is")
    changed = api.request("PATCH", "holds", _uuid(which), body=patch).json()
    out.result(changed, f"{which}: {changed['kind']} hold, {_until(changed)}")


def delete(
    api: Api,
    out: Output,
    which: Annotated[list[str], typer.Argument(metavar="UUID...", help="UUIDs of holds")],
) -> None:
    """End holds."""
    for each in map(_uuid, which):
        api.request("DELETE", "holds", each)
        out.result({"which": each, "deleted": True}, f"{each}: ended")


def _expiry(until: str | None, lasting: str | None) -> Document:
    """Return the field of the expiry, if one is given. Raises Usage."""
    if until and lasting:
        raise Usage("--until, --for: one of both")
    if not lasting:
        return {"expires_at": until} if until else {}
    found = re.fullmatch(rf"(\d{{1,5}})([{''.join(UNITS)}])", lasting)
    if found is None:
        raise Usage(f"--for: {lasting!r} is no duration, as 30m, 4h or 2d")
    return {"expires_in": int(found[1]) * UNITS[found[2]]}


def _until(hold: Document) -> str:
    return f"until {moment(hold['expires_at'])}" if hold["expires_at"] else "until it is ended"


def _uuid(which: str) -> str:
    """Check the form of a UUID. Raises Usage."""
    if not UUID.fullmatch(which.lower()):
        raise Usage(f"{which!r} is not the UUID of a hold; `ingot hold list` has them")
    return which
