"""
Rollouts: the options of their strategy, the plan, the confirmation, and following until the end.
"""

import time
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer

from app.cli import bulk
from app.cli.commands import Yes, option
from app.cli.rest import Api
from app.cli.terminal import times
from app.cli.terminal.errors import Failure, NotYet, Usage
from app.cli.terminal.output import Document, Output
from app.text.sentences import counted

#: Most waves and exclusions of a plan that are printed for people.
MOST = 10
NotBefore = Annotated[
    str | None,
    typer.Option(metavar="TIME", help="Start no node before, as 2026-01-31T22:00:00Z; in UTC"),
]
#: Seconds between two reads of a rollout.
PERIOD = 1.0
#: States of rollouts that are over.
ENDED = ("completed", "aborted")
#: Fields of a cron expression.
CRON_FIELDS = 5
#: Options of a strategy: those of every command that creates a rollout.
STRATEGY = (
    option(
        "max_unavailable",
        Annotated[
            str | None, typer.Option(metavar="N|N%", help="Most nodes in progress; default: 1")
        ],
    ),
    option(
        "group_by",
        Annotated[
            str | None, typer.Option(metavar="FIELD", help="Group nodes, as shard or extra.rack")
        ],
    ),
    option("max_groups", Annotated[int | None, typer.Option(help="Most groups in progress")]),
    option(
        "max_per_group",
        Annotated[int | None, typer.Option(help="Most nodes in progress in each group")],
    ),
    option(
        "canary", Annotated[int | None, typer.Option(help="First nodes, none of which may fail")]
    ),
    option(
        "error_budget",
        Annotated[
            str | None,
            typer.Option(metavar="N|N%", help="Failed nodes at which it pauses; default: 1"),
        ],
    ),
    option("not_before", NotBefore),
    option(
        "windows",
        Annotated[
            list[str] | None,
            typer.Option(
                "--window",
                metavar='"CRON DURATION [ZONE]"',
                help="Start nodes only then, as '0 22 * * MON-FRI 6h Europe/Berlin'; repeatable",
            ),
        ],
    ),
)
#: Options of every command that creates a rollout.
OPTIONS = (
    *STRATEGY,
    option("description", Annotated[str | None, typer.Option(help="Its purpose")]),
    option(
        "uuid",
        Annotated[str | None, typer.Option(help="Its UUID, so that a repeated command is refused")],
    ),
    option(
        "dry_run",
        Annotated[bool, typer.Option("--dry-run", help="Only print nodes and waves")],
        False,
    ),
    option(
        "wait",
        Annotated[
            float | None,
            typer.Option(
                metavar="[SECONDS]", min=0, help="Follow it until it ends or is paused, or so long"
            ),
        ],
    ),
    option("yes", Yes, False),
)


def create(api: Api, output: Output, fields: Mapping[str, Any], options: Mapping[str, Any]) -> None:
    """
    Print the plan of a rollout, ask for a confirmation, create the rollout, and follow it if asked.

    fields: target, nodes and arguments of the verb; those that are None are left out. options: the
    values of OPTIONS; without one of STRATEGY, the service's default.

    Raises Usage, Failure.
    """
    strategy = {parameter.name: options.get(parameter.name) for parameter in STRATEGY}
    if strategy["windows"]:
        strategy["windows"] = [_window(text) for text in strategy["windows"]]
    body = _without_none(
        **fields,
        strategy=_without_none(**strategy),
        description=options.get("description"),
        uuid=options.get("uuid"),
    )
    dry_run = options["dry_run"]
    if dry_run or not options["yes"]:
        plan = api.request("POST", "rollouts", body={**body, "dry_run": True}).json()
        if dry_run and not output.people:
            output.item(plan)
        elif output.people:
            _show_plan(output, plan)
        if dry_run:
            return
        if plan["included"]:  # else the service refuses it, and says why
            bulk.confirm(f"{body['target']}: {_extent(plan)}")
    rollout = api.request("POST", "rollouts", body=body).json()
    if options.get("wait") is not None:
        follow(api, output, rollout["uuid"], options["wait"])
    else:
        output.result(rollout, f"{rollout['uuid']}: {rollout['summary']}")


def _window(text: str) -> Document:
    """Parse a window: a cron expression, a duration, and a time zone if it has one."""
    words = text.split()
    cron, further_words = words[:CRON_FIELDS], words[CRON_FIELDS:]
    if len(further_words) not in (1, 2):
        raise Usage(
            f"--window: {text!r} is not five fields of cron, a duration and a time zone, as"
            " '0 22 * * MON-FRI 6h Europe/Berlin'"
        )
    duration, *zone = further_words
    minutes = times.seconds_of("--window", duration) // 60
    return {"cron": " ".join(cron), "minutes": minutes, **({"zone": zone[0]} if zone else {})}


def _without_none(**values: object) -> Document:
    return {name: value for name, value in values.items() if value is not None}


def _show_plan(output: Output, plan: Document) -> None:
    """Print the waves of a dry run, and the nodes that do not take part."""
    output.say(
        f"{_extent(plan)}, {plan['excluded']} excluded;"
        f" pauses at {counted(plan['error_budget'], 'failed node')}"
    )
    waves: dict[int, list[str]] = {}
    for node in plan["nodes"]:
        waves.setdefault(node["wave"], []).append(node["node_name"] or node["node_uuid"])
    for wave, names in list(waves.items())[:MOST]:
        canary = " (canary)" if wave <= plan["canary_waves"] else ""
        output.say(f"wave {wave}{canary}: {counted(len(names), 'node')}: {_some(names)}")
    for node in plan["excluded_nodes"][:MOST]:
        output.say(f"excluded: {node['node_name'] or node['node_uuid']}: {node['reason']}")


def _extent(plan: Document) -> str:
    return f"{counted(plan['included'], 'node')} in {counted(plan['waves'], 'wave')}"


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:MOST]) + (", ..." if len(names) > MOST else "")


def follow(api: Api, output: Output, uuid: str, timeout: float) -> None:
    """
    Print the summary of a rollout when a wave begins, and at its end or pause.

    timeout: most seconds to follow it.

    Raises NotYet: it is paused, or not over within the timeout. Raises Failure: nodes have failed,
    or it was aborted.
    """
    api, end, wave = api.another(patient=True), time.monotonic() + timeout, None
    while True:
        rollout = api.get("rollouts", uuid)
        is_over = rollout["state"] in ENDED
        if output.people and rollout["state"] == "running" and wave != rollout["wave"]:
            wave = rollout["wave"]
            output.say(f"{rollout['succeeded']} of {rollout['nodes']} done. {rollout['summary']}")
        seconds_left = end - time.monotonic()
        if is_over or rollout["state"] == "paused" or seconds_left <= 0:
            break
        time.sleep(min(PERIOD, seconds_left))
    output.result(rollout, f"{uuid}: {rollout['summary']}")
    _conclude(rollout)


def _conclude(rollout: Document) -> None:
    uuid, state = rollout["uuid"], rollout["state"]
    if state == "paused":
        raise NotYet(
            f"{uuid} is paused; `ingot fleet nodes {uuid} --state failed` has the failures"
        )
    if state not in ENDED:
        raise NotYet(f"{uuid} is not over yet; it goes on")
    if state == "aborted" or rollout["failed"]:
        raise Failure(f"{uuid} is {state}; {rollout['failed']} of its nodes have failed")
