"""Routes of further states of a machine: boot mode, secure boot, RAID, console."""

from collections.abc import Callable
from typing import Any

from flask import Response
from sqlalchemy.orm import Session

from app.api.node.console.consoles import link
from app.api.node.management import call_conductor
from app.api.node.node_identifiers import change_locked, node_of
from app.api.openapi.returns import NO_CONTENT, STARTED
from app.api.openapi.shapes import BOOLEAN, DOCUMENT, exactly, or_null
from app.api.request.context import Fields, RequestContext
from app.api.request.routes import Routes
from app.api.schemas.management import BootModeTarget, ConsoleTarget, RaidTarget, SecureBootTarget
from app.api.transport.responses import empty, json
from app.engine import management as service
from app.identity.caller import Caller
from app.models import Node

machine_states = Routes("machine_states", "Boot mode, secure boot, RAID and console of a machine")

Request = Callable[[Session, Node, Any, Caller], object]

CONSOLE = "/nodes/<ident>/states/console"


def _request(
    context: RequestContext, ident: str, request: Request, target: object, progress: str = "states"
) -> Response:
    """
    Request a change of state; answer 202.

    progress: path under the node that shows the progress.
    """
    answer = empty(202, location=f"{context.base_url}/v1/nodes/{ident}/{progress}")
    return change_locked(context, ident, answer, request, target, context.caller)


@machine_states.declare(
    "PUT",
    "/nodes/<ident>/states/boot_mode",
    since=76,
    rule="baremetal:node:set_boot_mode",
    returns=STARTED,
)
@machine_states.arguments(BootModeTarget, location="json_or_query")
def change_boot_mode(context: RequestContext, fields: Fields, ident: str) -> Response:
    """Change the boot mode of a machine"""
    return _request(context, ident, service.request_boot_mode, fields["target"])


@machine_states.declare(
    "PUT",
    "/nodes/<ident>/states/secure_boot",
    since=76,
    rule="baremetal:node:set_secure_boot",
    returns=STARTED,
)
@machine_states.arguments(SecureBootTarget, location="json_or_query")
def change_secure_boot(context: RequestContext, fields: Fields, ident: str) -> Response:
    """Switch secure boot on or off"""
    return _request(context, ident, service.request_secure_boot, fields["target"])


@machine_states.declare(
    "PUT",
    "/nodes/<ident>/states/raid",
    since=12,
    gone=406,
    rule="baremetal:node:set_raid_state",
    returns=NO_CONTENT,
)
@machine_states.arguments(RaidTarget)
def set_target_raid_config(context: RequestContext, fields: Fields, ident: str) -> Response:
    """Set the target RAID configuration of a machine"""
    return change_locked(context, ident, empty(204), service.set_target_raid_config, fields)


@machine_states.declare(
    "GET",
    CONSOLE,
    rule="baremetal:node:get_console",
    returns=exactly({"console_enabled": BOOLEAN, "console_info": or_null(DOCUMENT)}),
)
def show_console(context: RequestContext, ident: str) -> Response:
    """
    Show the address of a machine's console

    That of a graphical one shows it once, within `[vnc]token_timeout` seconds.
    """
    with context.runtime.reading() as session:
        node = node_of(context, session, ident)
    info = call_conductor(context, ident, "get_console") if node.console_enabled else None
    if info is not None and info.get("type") == "vnc":
        info = {"type": "vnc", "url": link(context, ident, node.uuid, info)}
    if info is not None:
        context.audit.show_secret("console_info")
    return json({"console_enabled": node.console_enabled, "console_info": info})


@machine_states.declare("PUT", CONSOLE, rule="baremetal:node:set_console_state", returns=STARTED)
@machine_states.arguments(ConsoleTarget, location="json_or_query")
def change_console(context: RequestContext, fields: Fields, ident: str) -> Response:
    """Start or stop the console of a machine"""
    return _request(
        context, ident, service.request_console, bool(fields["enabled"]), "states/console"
    )
