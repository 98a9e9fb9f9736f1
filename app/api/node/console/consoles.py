"""Routes of consoles, beyond Ironic's `states/console`: their state, watching, and history."""

import secrets
from collections.abc import Mapping
from contextlib import ExitStack
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote, urlsplit

from flask import Response
from sqlalchemy import select
from sqlalchemy.orm import Session

from app.api.node.console.console_socket import Watch
from app.api.node.console.screen_socket import Screen
from app.api.node.management import call_conductor
from app.api.node.node_identifiers import node_of
from app.api.openapi.returns import Returns
from app.api.openapi.shapes import BOOLEAN, INTEGER, TEXT, TIME, array, exactly, one_of
from app.api.policy.targets import owned_at
from app.api.request import auditing, repeats
from app.api.request.context import Fields, RequestContext
from app.api.request.routes import Routes
from app.api.schemas.consoles import HistoryQuery, StreamQuery, Ticket
from app.api.transport.responses import SOCKET, json
from app.broker.consoles import TICKET_TIME, ConsoleChannel
from app.engine.records import console_history
from app.errors import Forbidden, Invalid, NotFound, ServiceError, Unavailable
from app.identity.caller import Caller
from app.models import Node, Operation

consoles = Routes("consoles", "Consoles of machines: state, watching and typing, history")

CONSOLE = "/nodes/<ident>/console"
OPEN, WRITE = "baremetal:node:console:open", "baremetal:node:console:write"
#: Subprotocols of the WebSocket: its own, and the beginning of the one that carries the ticket,
#: as browsers can send no header of their choice, and addresses are logged.
PROTOCOL, TICKET = "ingot.console", "ingot.ticket."
#: Subprotocol of other viewers of screens, which know RFB alone.
BINARY = "binary"
SERIAL, GRAPHICAL = KINDS = ("serial", "graphical")
STATES = ("connecting", "connected", "waiting", "idle")
RETRY_OF_MANY = 30.0

_FACTS = {"kind": one_of(KINDS), "state": one_of(STATES), "reason": TEXT, "writer": TEXT}
STATE = exactly(_FACTS)
RECORD = exactly({
    "at": TIME, "kind": one_of(("output", "state")), "data": TEXT, "conductor": TEXT,
})  # fmt: skip


class UpgradeRequired(ServiceError):
    """The request must ask for a WebSocket."""

    status = 426


def _channel(context: RequestContext) -> ConsoleChannel:
    channel = context.runtime.consoles
    if channel is None:
        raise Unavailable("This process opens no consoles.")
    return channel


@consoles.declare("GET", CONSOLE, rule="baremetal:node:console:open", returns=STATE)
def show_console_state(context: RequestContext, ident: str) -> Response:
    """
    Show whether an enabled console is connected, and who types

    An addition to Ironic's API. `idle`: a graphical console without viewers, connected when
    one comes. `reason`: the cause of a missing connection, in the words of the program or of the
    BMC. `writer`: name of the caller who types; empty: there is none.
    """
    facts = call_conductor(context, ident, "open_console")
    return json({name: facts[name] for name in _FACTS})


@consoles.declare(
    "POST",
    f"{CONSOLE}/tickets",
    rule="baremetal:node:console:open",
    returns=Returns({201: exactly({
        "ticket": TEXT, "seconds": INTEGER, "url": TEXT, "protocols": array(TEXT), **_FACTS,
    })}),
    no_key=repeats.CALLS,
)  # fmt: skip
@consoles.arguments(Ticket)
def open_console(context: RequestContext, fields: Fields, ident: str) -> Response:
    """
    Get a ticket that opens a console, once and within a minute

    An addition to Ironic's API. `protocols` are the subprotocols of the WebSocket at `url`.
    """
    if fields["write"] and context.caller.restricted:
        context.access.check(WRITE, owned_at(CONSOLE), ident, dict)
    facts = call_conductor(context, ident, "open_console")
    if fields["write"] and facts["kind"] == GRAPHICAL and context.runtime.settings.vnc.read_only:
        raise Forbidden("[vnc]read_only: graphical consoles are only watched")
    with context.runtime.reading() as session:
        uuid = node_of(context, session, ident).uuid
    details = {"ident": ident, "write": fields["write"], "after": fields["after"]}
    ticket = keep_ticket(context, uuid, facts, details)
    url = f"{context.base_url}/v1/nodes/{ident}/console/stream"
    answer = {
        "ticket": ticket,
        "seconds": TICKET_TIME,
        "url": f"ws{url.removeprefix('http')}",
        "protocols": [PROTOCOL, f"{TICKET}{ticket}"],
    }
    return json({**answer, **{name: facts[name] for name in _FACTS}}, 201)


def keep_ticket(
    context: RequestContext,
    node: str,
    facts: Fields,
    details: Mapping[str, Any],
    seconds: int = TICKET_TIME,
) -> str:
    """
    Keep a ticket of the caller, which opens the console of a node once; return its secret.

    facts: of the console's session. details: ident, write, after. seconds: until it expires.

    Raises Unavailable.
    """
    user, ticket = context.caller, secrets.token_urlsafe(32)
    document = {
        "node": node,
        "kind": facts["kind"],
        "session": facts["session"],
        "name": user.user_name or user.user_id or "",
        "user": user.user_id or "",
        "project": user.project_id,
        "audit": auditing.template(context),
        **details,
    }
    _channel(context).keep_ticket(ticket, document, seconds)
    return ticket


def link(context: RequestContext, ident: str, node: str, facts: Fields) -> str | None:
    """
    Return the URL of a page that shows a graphical console once, as Ironic's API has it.

    None: the caller may not watch it. It types only if the caller may.

    Raises Unavailable.
    """
    vnc = context.runtime.settings.vnc
    if not _may(context, OPEN, ident):
        return None
    write = not vnc.read_only and _may(context, WRITE, ident)
    details = {"ident": node, "write": write, "after": "0"}
    ticket = keep_ticket(context, node, facts, details, vnc.token_timeout)
    base = context.base_url
    path = f"{urlsplit(base).path.strip('/')}/v1/nodes/{node}/console/stream?token={ticket}"
    return f"{base}/ui/vnc.html?path={quote(path.lstrip('/'), safe='')}"


def _may(context: RequestContext, rule: str, ident: str) -> bool:
    try:
        if context.caller.restricted:
            context.access.check(rule, owned_at(CONSOLE), ident, dict)
    except (Forbidden, NotFound):
        return False
    return True


@consoles.declare("GET", f"{CONSOLE}/stream", returns=Returns({101: None}))
@consoles.arguments(StreamQuery, location="query")
def stream_console(context: RequestContext, query: Fields, ident: str) -> Response:
    """
    Open a console, as a WebSocket

    An addition to Ironic's API. The ticket, which another request has got, is the credential: in a
    subprotocol, or in `token` for viewers that know RFB alone.
    """
    socket = context.request.environ.get(SOCKET)
    if socket is None:
        raise UpgradeRequired("A console is opened by a WebSocket: Upgrade: websocket is required.")
    offers = (name for name in socket.subprotocols if name.startswith(TICKET))
    secret = next(offers, "").removeprefix(TICKET) or query.get("token", "")
    ticket = _channel(context).take_ticket(secret) if secret else None
    if ticket is None or ident not in (ticket["node"], ticket["ident"]):
        raise Forbidden(
            "The ticket is unknown, used, or expired: POST"
            f" /v1/nodes/{ident}/console/tickets returns another one."
        )
    followers, environ = context.services.followers, context.request.environ
    followers.limit_silence(environ)
    watcher = Caller(user_id=ticket["user"], project_id=ticket["project"])
    with ExitStack() as places:
        places.enter_context(
            followers.place(watcher, environ, followers.consoles, "consoles", RETRY_OF_MANY)
        )
        leave = places.pop_all().close
    arguments = context.runtime, _channel(context), ticket, lambda: followers.tail.is_closed, leave
    if ticket["kind"] == SERIAL:
        watch: Watch = Watch(*arguments)
    else:
        watch = Screen(*arguments, plain=PROTOCOL not in socket.subprotocols)
    protocols = (name for name in (PROTOCOL, BINARY) if name in socket.subprotocols)
    socket.subprotocol, socket.serve = next(protocols, None), watch.serve
    return Response(status=101)


@consoles.declare(
    "GET",
    f"{CONSOLE}/history",
    rule="baremetal:node:console:history",
    returns=exactly({"console_history": array(RECORD), "cut": BOOLEAN, "missing": array(TEXT)}),
)
@consoles.arguments(HistoryQuery, location="query")
def list_console_history(context: RequestContext, query: Fields, ident: str) -> Response:
    """
    List what an enabled console has shown, the newest records that have `size` bytes together

    An addition to Ironic's API. Output is in base64. `operation`: of the time from the request for
    an operation until its end. `cut`: older records are left out. `missing`: conductors that have
    not answered, and may have more. The times are those of the conductors' clocks.
    """
    since, until = query.get("since"), query.get("until")
    with context.runtime.reading() as session:
        node = node_of(context, session, ident)
        if "operation" in query:
            if since or until:
                raise Invalid("operation: not together with since and until")
            since, until = _time_of(session, node, query["operation"])
        session.expunge_all()
    history = console_history.read(context.runtime, node, since, until, query["size"])
    context.audit.concern(node.uuid, node.name)
    context.audit.show_secret("console_history")
    records = [{**record._asdict(), "at": _moment(record.at)} for record in history.records]
    return json({"console_history": records, "cut": history.cut, "missing": list(history.missing)})


def _time_of(session: Session, node: Node, operation: str) -> tuple[datetime, datetime | None]:
    """Return the beginning and the end of an operation. Raises NotFound."""
    row = session.execute(
        select(Operation.created_at, Operation.finished_at).where(
            Operation.uuid == operation, Operation.node_id == node.id
        )
    ).first()
    if row is None:
        raise NotFound("operation", operation)
    return row[0], row[1]


def _moment(milliseconds: int) -> datetime:
    return datetime.fromtimestamp(milliseconds / 1000, UTC).replace(tzinfo=None)
