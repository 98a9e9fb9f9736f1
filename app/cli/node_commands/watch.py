"""The command `ingot node watch`: the changes of a node, until its operation ends."""

import time
from typing import Annotated

import typer

from app.cli.commands import FOREVER, Node
from app.cli.events import WAIT, print_event
from app.cli.operation_progress import ENDED, require_success
from app.cli.rest import Api
from app.cli.terminal.errors import Failure, NotYet, Usage
from app.cli.terminal.output import Document, Output
from app.lifecycle.provision_states import MACHINE, Kind, State

#: States in which an operation ends without success.
FAILED = ("failed", "aborted")
STATES = ", ".join(state.value for state in State)


def watch(
    api: Api,
    out: Output,
    node: Node,
    *,
    until: Annotated[
        str | None,
        typer.Option(metavar="STATE", help="Watch until the node is in this provision state"),
    ] = None,
    timeout: Annotated[
        float, typer.Option(metavar="SECONDS", min=0, help="Most seconds to watch")
    ] = FOREVER,
) -> None:
    """
    Print the changes of a node and its steps until its operation ends, or until a state.

    Exit status: 0 success, 1 the operation failed or was aborted, 3 it is held or not over yet.
    """
    if until is not None and until not in set(State):
        raise Usage(f"--until: {until!r} is no provision state; there are {STATES}")
    api, end = api.another(patient=True), time.monotonic() + timeout
    # before the states are read, so that no change is missed between
    after = api.get("events", limit=1)["last"]
    operation = None if until else _newest(api, node)
    uuid = api.get("nodes", node, fields="uuid")["uuid"]
    while True:
        ended, left = _judge(api, node, until, operation), max(end - time.monotonic(), 0)
        page = api.get("events", node=uuid, after=after, wait=0 if ended else min(WAIT, left))
        after = page["last"]
        for event in page["events"]:
            print_event(out, event)
            if until and event["type"] == "operation.state" and event["after"] in FAILED:
                operation = event["operation_uuid"]
        if isinstance(ended, Failure):
            raise ended
        if ended:
            break
        if not left:
            goal = f"not {until}" if until else "not over"
            raise NotYet(f"{node} is {goal} yet; it goes on")
    if out.people:
        out.say(f"{node}: {api.get('nodes', node, 'states')['provision_state']}")


def _newest(api: Api, node: str) -> str | None:
    """
    Return the UUID of the node's active operation, else of its last one; None: it has had none.

    The operation of a request may have ended before the command begins.
    """
    found = api.get("nodes", node, "operations")["operations"]
    active = [each["uuid"] for each in found if each["state"] not in ENDED]
    return next(iter(active + [each["uuid"] for each in found]), None)


def _judge(api: Api, node: str, until: str | None, operation: str | None) -> bool | Failure:
    """
    Return whether the awaited end has come; a Failure: the operation has failed or is held.

    operation: UUID; None: none that decides.
    Raises Failure: the service refused a request.
    """
    if until:
        states = api.get("nodes", node, "states")
        state = states["provision_state"]
        if state == until:
            return True
        if MACHINE[State(state)].kind is Kind.FAILED:
            return Failure(f"{node} is {state}: {states['last_error'] or 'no reason given'}")
    if operation is None:
        return not until
    found: Document = api.get("operations", operation)
    if found["state"] not in (*ENDED, "held"):
        return False
    try:
        require_success(found, node, found["kind"])
    except Failure as failure:
        return failure
    return True
