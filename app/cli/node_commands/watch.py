"""The command `ingot node watch`: the changes of a node, until its operation ends."""

import time
from typing import Annotated

import typer

from app.cli.commands import FOREVER, Node
from app.cli.events import WAIT, print_event
from app.cli.operation_progress import (
    ENDED,
    clock_of,
    label,
    place_of,
    progress_of,
    require_success,
    under_way,
)
from app.cli.rest import Api
from app.cli.terminal.errors import Failure, NotYet, Usage
from app.cli.terminal.output import Document, Output
from app.lifecycle.provision_states import MACHINE, Kind, State

#: Final states of an operation without success.
FAILED = ("failed", "aborted")
STATES = ", ".join(state.value for state in State)


def watch(
    api: Api,
    output: Output,
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
    Print the present state of a node, then its changes and steps until its operation ends.

    Exit status: 0 success, 1 the operation failed or was aborted, 3 it is held or not over yet.
    """
    if until is not None and until not in set(State):
        raise Usage(f"--until: {until!r} is no provision state; there are {STATES}")
    api, end = api.another(patient=True), time.monotonic() + timeout
    # before the states are read, so that no change is missed between
    position = api.get("events", limit=1)["last"]
    operation = None if until else _newest(api, node)
    uuid = api.get("nodes", node, fields="uuid")["uuid"]
    is_shown = not output.people
    while True:
        verdict, seconds_left = _judge(api, node, until, operation), max(end - time.monotonic(), 0)
        if not (is_shown or verdict):
            _print_present(api, output, node, operation)
            is_shown = True
        page = api.get(
            "events", node=uuid, after=position, wait=0 if verdict else min(WAIT, seconds_left)
        )
        position = page["last"]
        for event in page["events"]:
            print_event(output, event)
            if until and event["type"] == "operation.state" and event["after"] in FAILED:
                operation = event["operation_uuid"]
        if isinstance(verdict, Failure):
            raise verdict
        if verdict:
            break
        if not seconds_left:
            goal = f"not {until}" if until else "not over"
            raise NotYet(f"{node} is {goal} yet; it goes on")
    if output.people:
        output.say(f"{node}: {api.get('nodes', node, 'states')['provision_state']}")


def _print_present(api: Api, output: Output, node: str, operation: str | None) -> None:
    """Print the state of a node and, while an operation is active, its current step."""
    states = api.get("nodes", node, "states")
    output.say(
        ", ".join(filter(None, (f"{node}: {states['provision_state']}", states["power_state"])))
    )
    uuid = operation or _newest(api, node)
    document = api.get("operations", uuid) if uuid else None
    if document is None or document["state"] in ENDED:
        return
    step, queued = under_way(document), document.get("admission")
    position = place_of(queued) if queued else document["state"]
    if step and not queued:
        place = f"step {step['position'] + 1} of {len(document['steps'])}, {label(step)}"
        position = f"{place}: {progress_of(step)}{clock_of(document, step)}"
    output.say(f"{document['kind']}: {position}")


def _newest(api: Api, node: str) -> str | None:
    """
    Return the UUID of the node's active operation, else of its last one, if any.

    The operation of a request may have ended before the command starts.
    """
    operations = api.get("nodes", node, "operations")["operations"]
    active = [operation["uuid"] for operation in operations if operation["state"] not in ENDED]
    return next(iter(active + [operation["uuid"] for operation in operations]), None)


def _judge(api: Api, node: str, until: str | None, operation: str | None) -> bool | Failure:
    """
    Return whether the awaited end has come; a Failure: the operation has failed or is held.

    operation: UUID of the operation whose end decides, if there is one.
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
    document: Document = api.get("operations", operation)
    if document["state"] not in (*ENDED, "held"):
        return False
    try:
        require_success(document, node, document["kind"])
    except Failure as failure:
        return failure
    return True
