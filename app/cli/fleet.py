"""Commands for rollouts: a verb for many nodes in waves."""

from typing import Annotated, Any

import typer

from app.cli import bulk, rollouts
from app.cli.commands import FOREVER, Limit
from app.cli.node_commands.verbs import StepsGiven
from app.cli.resources import checked_uuid
from app.cli.rest import Api
from app.cli.terminal import arguments, times
from app.cli.terminal.errors import Usage
from app.cli.terminal.output import Output
from app.cli.terminal.times import Since

COLUMNS = (
    "uuid", "target", "state", "pause_cause", "wave", "waves", "nodes", "running", "succeeded",
    "failed", "created_at",
)  # fmt: skip
NODE_COLUMNS = (
    "sequence", "node_uuid", "node_name", "group", "wave", "state", "operation_uuid", "code",
    "error", "due_at", "started_at", "finished_at",
)  # fmt: skip
NODES = ("node", "group", "wave", "state", "code", "error")

RolloutArgument = Annotated[str, typer.Argument(metavar="UUID", help="UUID of the rollout")]


def run(
    api: Api,
    output: Output,
    target: Annotated[
        str,
        typer.Argument(help='Verb, as clean; power state, as "power off"; or refresh'),
    ],
    *,
    expressions: bulk.Where = None,
    names_file: bulk.NamesFile = None,
    all_nodes: Annotated[bool, typer.Option("--all", help="All nodes, without --where")] = False,
    clean_steps: StepsGiven = None,
    deploy_steps: StepsGiven = None,
    service_steps: StepsGiven = None,
    runbook: Annotated[str | None, typer.Option(help="Run the steps of this runbook")] = None,
    timeout: Annotated[int | None, typer.Option(min=1, help="Of power changes, seconds")] = None,
    **options: object,
) -> None:
    """Request a verb for many nodes in waves; shows its plan, and asks for a confirmation."""
    if (bool(expressions), names_file is not None, all_nodes).count(True) != 1:
        raise Usage(
            "choose nodes by --where EXPRESSION or --nodes FILE, or all by --all: one of them"
        )
    steps = {
        name: text and arguments.document(f"--{name.replace('_', '-')}", text)
        for name, text in (
            ("clean_steps", clean_steps), ("deploy_steps", deploy_steps),
            ("service_steps", service_steps),
        )
    }  # fmt: skip
    nodes = dict[str, Any](bulk.filters_of(expressions or ()))
    if names_file is not None:
        nodes["names"] = list(dict.fromkeys(bulk.names_in(names_file)))
    fields = {"target": target, "nodes": nodes, **steps, "runbook": runbook, "timeout": timeout}
    rollouts.create(api, output, fields, options)


def list_rollouts(
    api: Api,
    output: Output,
    *,
    state: Annotated[str | None, typer.Option(help="Only those in this state")] = None,
    since: Since = None,
    limit: Limit = None,
) -> None:
    """List rollouts, the newest first."""
    pages = api.every("rollouts", state=state, limit=limit)
    output.items(times.recent(pages, since, in_order=True), COLUMNS)


def show(api: Api, output: Output, uuid: RolloutArgument) -> None:
    """Show a rollout, and what it waits for."""
    rollout = api.get("rollouts", _uuid(uuid))
    if output.people:
        output.say(rollout["summary"])
    output.item(rollout)


def nodes(
    api: Api,
    output: Output,
    uuid: RolloutArgument,
    *,
    state: Annotated[str | None, typer.Option(help="Only those in this state")] = None,
    wave: Annotated[int | None, typer.Option(min=1, help="Only those of this wave")] = None,
    limit: Limit = None,
) -> None:
    """List the nodes of a rollout, with the code and the message of each failure."""
    query = {"state": state, "wave": wave}
    rollout_nodes = list(api.every("rollouts", _uuid(uuid), "nodes", limit=limit, **query))
    if output.people:
        rollout_nodes = [
            node | {"node": node["node_name"] or node["node_uuid"]} for node in rollout_nodes
        ]
    output.items(rollout_nodes, NODE_COLUMNS, NODES)


def watch(
    api: Api,
    output: Output,
    uuid: RolloutArgument,
    *,
    timeout: Annotated[
        float, typer.Option(metavar="SECONDS", min=0, help="Most seconds to watch")
    ] = FOREVER,
) -> None:
    """
    Print each wave of a rollout as it begins, until the rollout ends or is paused.

    Exit status: 0 all nodes succeeded, 1 nodes failed or it was aborted, 3 it is paused or not over
    yet.
    """
    rollouts.follow(api, output, _uuid(uuid), timeout)


def pause(api: Api, output: Output, uuid: RolloutArgument) -> None:
    """Pause a rollout; operations in progress continue."""
    _request(api, output, uuid, "pause")


def resume(api: Api, output: Output, uuid: RolloutArgument) -> None:
    """Resume a rollout; its failures so far are accepted."""
    _request(api, output, uuid, "resume")


def abort(api: Api, output: Output, uuid: RolloutArgument) -> None:
    """Abort a rollout; operations in progress continue."""
    _request(api, output, uuid, "abort")


def delete(
    api: Api,
    output: Output,
    uuids: Annotated[list[str], typer.Argument(metavar="UUID...", help="UUIDs of the rollouts")],
) -> None:
    """Delete rollouts that have ended, and the record of their nodes."""
    for uuid in map(_uuid, uuids):
        api.request("DELETE", "rollouts", uuid)
        output.result({"which": uuid, "deleted": True}, f"{uuid}: deleted")


def _request(api: Api, output: Output, uuid: str, target: str) -> None:
    answer = api.request("PUT", "rollouts", _uuid(uuid), "states", body={"target": target})
    rollout = answer.json()
    output.result(rollout, f"{rollout['uuid']}: {rollout['summary']}")


def _uuid(uuid: str) -> str:
    return checked_uuid(uuid, "rollout", "fleet")
