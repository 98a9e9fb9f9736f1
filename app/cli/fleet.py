"""Commands for rollouts: a verb for many nodes in waves."""

from collections.abc import Sequence
from typing import Annotated, Any

import typer

from app.cli import bulk
from app.cli.node_commands.verbs import StepsGiven
from app.cli.rest import Api
from app.cli.terminal import arguments
from app.cli.terminal.errors import Usage
from app.cli.terminal.output import Document, Output
from app.cli.terminal.tables import UUID

COLUMNS = (
    "uuid", "target", "state", "pause_cause", "wave", "waves", "nodes", "running", "succeeded",
    "failed", "created_at",
)  # fmt: skip
NODE_COLUMNS = (
    "sequence", "node_uuid", "node_name", "group", "wave", "state", "operation_uuid", "code",
    "error", "due_at", "started_at", "finished_at",
)  # fmt: skip
NODES = ("node", "group", "wave", "state", "code", "error")
#: Most waves and exclusions of a plan that are printed for people.
MOST = 10

Which = Annotated[str, typer.Argument(metavar="UUID", help="UUID of the rollout")]
Limit = Annotated[int | None, typer.Option(min=1, help="Largest number of items")]


def run(
    api: Api,
    out: Output,
    target: Annotated[
        str, typer.Argument(help='Verb, as clean; or power state, as "power off" or rebooting')
    ],
    *,
    where: bulk.Where = None,
    all_nodes: Annotated[bool, typer.Option("--all", help="All nodes, without --where")] = False,
    clean_steps: StepsGiven = None,
    deploy_steps: StepsGiven = None,
    service_steps: StepsGiven = None,
    runbook: Annotated[str | None, typer.Option(help="Run the steps of this runbook")] = None,
    timeout: Annotated[int | None, typer.Option(min=1, help="Of power changes, seconds")] = None,
    max_unavailable: Annotated[
        str | None, typer.Option(metavar="N|N%", help="Most nodes in progress; default: 1")
    ] = None,
    group_by: Annotated[
        str | None, typer.Option(metavar="FIELD", help="Group nodes, as shard or extra.rack")
    ] = None,
    max_groups: Annotated[int | None, typer.Option(help="Most groups in progress")] = None,
    max_per_group: Annotated[
        int | None, typer.Option(help="Most nodes in progress in each group")
    ] = None,
    canary: Annotated[int | None, typer.Option(help="First nodes, none of which may fail")] = None,
    error_budget: Annotated[
        str | None, typer.Option(metavar="N|N%", help="Failed nodes at which it pauses; default: 1")
    ] = None,
    description: Annotated[str | None, typer.Option(help="Its purpose")] = None,
    uuid: Annotated[
        str | None, typer.Option(help="Its UUID, so that a repeated command is refused")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only print nodes and waves")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Skip the confirmation")] = False,
) -> None:
    """Request a verb for many nodes in waves; shows its plan, and asks for a confirmation."""
    if bool(where) == all_nodes:
        raise Usage("choose nodes by --where EXPRESSION, or all by --all: one of both")
    steps = {
        name: text and arguments.document(f"--{name.replace('_', '-')}", text)
        for name, text in (
            ("clean_steps", clean_steps), ("deploy_steps", deploy_steps),
            ("service_steps", service_steps),
        )
    }  # fmt: skip
    strategy = _without_none(
        max_unavailable=max_unavailable, group_by=group_by, max_groups=max_groups,
        max_per_group=max_per_group, canary=canary, error_budget=error_budget,
    )  # fmt: skip
    body = _without_none(
        target=target, nodes=bulk.filters_of(where or ()), strategy=strategy, **steps,
        runbook=runbook, timeout=timeout, description=description, uuid=uuid,
    )  # fmt: skip
    if dry_run or not yes:
        plan = api.request("POST", "rollouts", body={**body, "dry_run": True}).json()
        if dry_run and not out.people:
            out.item(plan)
        elif out.people:
            _show_plan(out, plan)
        if dry_run:
            return
        bulk.confirm(f"{target}: {plan['included']} nodes in {plan['waves']} waves")
    rollout = api.request("POST", "rollouts", body=body).json()
    out.result(rollout, f"{rollout['uuid']}: {rollout['summary']}")


def _without_none(**values: Any) -> Document:
    return {name: value for name, value in values.items() if value is not None}


def _show_plan(out: Output, plan: Document) -> None:
    """Print the waves of a dry run, and the nodes that do not take part."""
    out.say(
        f"{plan['included']} nodes in {plan['waves']} waves, {plan['excluded']} excluded;"
        f" pauses at {plan['error_budget']} failed nodes"
    )
    waves: dict[int, list[str]] = {}
    for each in plan["nodes"]:
        waves.setdefault(each["wave"], []).append(each["node_name"] or each["node_uuid"])
    for wave, names in list(waves.items())[:MOST]:
        canary = " (canary)" if wave <= plan["canary_waves"] else ""
        out.say(f"wave {wave}{canary}: {len(names)} nodes: {_some(names)}")
    for each in plan["excluded_nodes"][:MOST]:
        out.say(f"excluded: {each['node_name'] or each['node_uuid']}: {each['reason']}")


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:MOST]) + (", ..." if len(names) > MOST else "")


def list_rollouts(
    api: Api,
    out: Output,
    *,
    state: Annotated[str | None, typer.Option(help="Only those in this state")] = None,
    limit: Limit = None,
) -> None:
    """List rollouts, the newest first."""
    out.items(api.every("rollouts", state=state, limit=limit), COLUMNS)


def show(api: Api, out: Output, which: Which) -> None:
    """Show a rollout, and what it waits for."""
    rollout = api.get("rollouts", _uuid(which))
    if out.people:
        out.say(rollout["summary"])
    out.item(rollout)


def nodes(
    api: Api,
    out: Output,
    which: Which,
    *,
    state: Annotated[str | None, typer.Option(help="Only those in this state")] = None,
    wave: Annotated[int | None, typer.Option(min=1, help="Only those of this wave")] = None,
    limit: Limit = None,
) -> None:
    """List the nodes of a rollout, with the code and the message of each failure."""
    query = {"state": state, "wave": wave}
    found = list(api.every("rollouts", _uuid(which), "nodes", limit=limit, **query))
    if out.people:
        found = [each | {"node": each["node_name"] or each["node_uuid"]} for each in found]
    out.items(found, NODE_COLUMNS, NODES)


def pause(api: Api, out: Output, which: Which) -> None:
    """Pause a rollout; operations in progress continue."""
    _request(api, out, which, "pause")


def resume(api: Api, out: Output, which: Which) -> None:
    """Resume a rollout; its failures so far are accepted."""
    _request(api, out, which, "resume")


def abort(api: Api, out: Output, which: Which) -> None:
    """Abort a rollout; operations in progress continue."""
    _request(api, out, which, "abort")


def delete(
    api: Api,
    out: Output,
    which: Annotated[list[str], typer.Argument(metavar="UUID...", help="UUIDs of the rollouts")],
) -> None:
    """Delete rollouts that have ended, and the record of their nodes."""
    for each in map(_uuid, which):
        api.request("DELETE", "rollouts", each)
        out.result({"which": each, "deleted": True}, f"{each}: deleted")


def _request(api: Api, out: Output, which: str, target: str) -> None:
    answer = api.request("PUT", "rollouts", _uuid(which), "states", body={"target": target})
    rollout = answer.json()
    out.result(rollout, f"{rollout['uuid']}: {rollout['summary']}")


def _uuid(which: str) -> str:
    """Check the form of a UUID. Raises Usage."""
    if not UUID.fullmatch(which.lower()):
        raise Usage(f"{which!r} is not the UUID of a rollout; `ingot fleet list` has them")
    return which
