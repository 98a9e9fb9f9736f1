"""Commands for provision and power states: requests, dry runs, and waiting for the end."""

import time
from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any

import typer

from app.cli import bulk, operation_progress, rollouts
from app.cli.bulk import Nodes, NodeSelection, Outcome
from app.cli.commands import Node
from app.cli.rest import Api
from app.cli.terminal import arguments, secrets
from app.cli.terminal.consoles import console
from app.cli.terminal.errors import Failure, NotYet, Usage
from app.cli.terminal.output import Document, Output
from app.lifecycle.provision_states import VERBS
from app.lifecycle.verb_arguments import SECRETS, required_by
from app.text.sentences import joined

#: Provisioning verbs of the API; the service checks them against the node's state.
Verb = StrEnum("Verb", {verb.upper(): verb for verb in VERBS})  # type: ignore[misc]


class Power(StrEnum):
    """Power actions."""

    ON = "on"
    OFF = "off"
    REBOOT = "reboot"


#: Action -> (hard, soft) target of the API.
POWER = {
    Power.ON: ("power on", None),
    Power.OFF: ("power off", "soft power off"),
    Power.REBOOT: ("rebooting", "soft rebooting"),
}
#: Verbs that destroy the data on the disks of a machine.
DESTROY = ("clean", "rebuild", "deleted", "undeploy")
#: Verbs that may do so: a dry run tells.
ERASING = ("provide", "active", "deploy", "service")
#: Argument -> its option, where that has a name of its own.
OPTION_NAMES = {"configdrive": "config-drive"}
STEP_COLUMNS = ("interface", "step", "source", "in_band", "args")


Wait = Annotated[
    float | None,
    typer.Option(metavar="[SECONDS]", min=0, help="Wait for the end, and print each step"),
]
StepsGiven = Annotated[str | None, typer.Option(metavar="FILE|JSON|-", help="List of steps to run")]


def provision_state(
    api: Api,
    output: Output,
    *,
    nodes: Nodes = None,
    verb: Verb,
    clean_steps: StepsGiven = None,
    deploy_steps: StepsGiven = None,
    service_steps: StepsGiven = None,
    runbook: Annotated[str | None, typer.Option(help="Run the steps of this runbook")] = None,
    config_drive: Annotated[
        str | None,
        typer.Option(metavar="FILE|JSON|URL", help="Configuration drive of the instance"),
    ] = None,
    rescue_password: Annotated[
        str | None, typer.Option(help=f"Password of the rescue user: {secrets.SOURCES}")
    ] = None,
    disable_ramdisk: Annotated[
        bool | None, typer.Option("--disable-ramdisk", help="Run the steps without an agent")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only print the steps")] = False,
    wait: Wait = None,
    not_before: rollouts.NotBefore = None,
    **selection_options: object,
) -> None:
    """Request a provisioning verb for nodes: manage, provide, clean, deploy, ..."""
    selection = NodeSelection.of(nodes, selection_options)
    lists = {
        "clean_steps": clean_steps, "deploy_steps": deploy_steps, "service_steps": service_steps,
    }  # fmt: skip
    body: Document = {"target": verb.value, "runbook": runbook}
    _require_arguments(verb, lists | {"runbook": runbook, "rescue_password": rescue_password})
    if rescue_password is not None:
        rescue_password = secrets.read_or_warn(
            "--rescue-password", "rescue_password", rescue_password
        )
    body |= {"rescue_password": rescue_password, "disable_ramdisk": disable_ramdisk}
    for name, text in lists.items():
        if text is not None:
            body[name] = arguments.document(option_of(name), text)
    if config_drive is not None:
        body["configdrive"] = arguments.config_drive(option_of("configdrive"), config_drive)
    body = {name: value for name, value in body.items() if value is not None}
    if not_before is not None:
        schedule(api, output, selection, body, not_before, dry_run=dry_run, wait=wait)
    elif not dry_run:
        destroys = verb.value if verb in DESTROY or _erases(api, selection, body) else ""
        request(api, output, selection, "provision", body, wait=wait, destroys=destroys)
    elif selection.only_node:
        rehearse(api, output, selection.only_node, body)
    else:
        bulk.for_each_node(
            api, output, selection, lambda api, node: accepted(node, rehearsal(api, node, body))
        )


def option_of(argument: str) -> str:
    """Return the option of the command line for an argument of a verb."""
    return f"--{OPTION_NAMES.get(argument, argument.replace('_', '-'))}"


def _require_arguments(verb: str, values: Mapping[str, object]) -> None:
    """Check that a verb has one of the options that it needs. Raises Usage."""
    names = required_by(verb)
    if names and not any(values[name] for name in names):
        raise Usage(f'{" or ".join(map(option_of, names))}: "{names[0]}" is required with {verb}')


def _erases(api: Api, selection: NodeSelection, body: Document) -> bool:
    """
    Whether a verb destroys data on a node that the command does not name, by its dry run.

    The first such node ends the search, and so does one whose agent has never reported its steps. A
    refused dry run destroys nothing.
    """
    if not selection.is_indirect or selection.yes or body["target"] not in ERASING:
        return False

    def act(api: Api, node: str) -> Outcome:
        result = rehearsal(api, node, body)
        agent = result.get("agent")
        is_unknown = bool(agent and agent["reported_at"] is None)
        destroys = bool(result.get("destroys")) or is_unknown
        return Outcome({"destroys": result["accepted"] and destroys}, "")

    nodes = selection.nodes(api)
    results = bulk.in_parallel(api, nodes, selection.jobs, act)
    return any(result.document["destroys"] for _, result in results if isinstance(result, Outcome))


def abort(
    api: Api, output: Output, *, nodes: Nodes = None, wait: Wait = None, **selection_options: object
) -> None:
    """Abort the operations of nodes."""
    request(
        api,
        output,
        NodeSelection.of(nodes, selection_options),
        "provision",
        {"target": "abort"},
        wait=wait,
    )


def power(
    api: Api,
    output: Output,
    *,
    nodes: Nodes = None,
    state: Power,
    soft: Annotated[bool, typer.Option("--soft", help="Shut the operating system down")] = False,
    timeout: Annotated[int | None, typer.Option(min=1, help="Timeout in seconds")] = None,
    wait: Wait = None,
    not_before: rollouts.NotBefore = None,
    **selection_options: object,
) -> None:
    """Switch nodes on or off, or reboot them."""
    selection = NodeSelection.of(nodes, selection_options)
    target = POWER[state][soft]
    if target is None:
        raise Usage("--soft: only with off and reboot")
    body = {"target": target} | ({"timeout": timeout} if timeout else {})
    if not_before is not None:
        schedule(api, output, selection, body, not_before, dry_run=False, wait=wait)
        return
    harm = {"disturbs" if state is Power.ON else "destroys": f"power {state}"}
    request(api, output, selection, "power", body, wait=wait, **harm)


def schedule(
    api: Api,
    output: Output,
    selection: NodeSelection,
    body: Document,
    not_before: str,
    *,
    dry_run: bool,
    wait: float | None,
) -> None:
    """
    Request a state for nodes at a later time: by a rollout that has them in one wave.

    Raises Usage, Failure.
    """
    if wait is not None:
        raise Usage("--wait: not with --not-before; `ingot fleet show` follows the rollout")
    for name in body:
        if name in SECRETS:
            raise Usage(f"{option_of(name)}: not with --not-before, which keeps no secrets")
    if selection.filters:
        nodes = dict[str, Any](bulk.filters_of(selection.filters))
    else:
        nodes = {"names": selection.nodes(api)}
    options = {
        "not_before": not_before, "max_unavailable": "100%", "error_budget": "100%",
        "dry_run": dry_run, "yes": selection.yes or not selection.is_indirect,
    }  # fmt: skip
    rollouts.create(api, output, {**body, "nodes": nodes}, options)


def request(
    api: Api,
    output: Output,
    selection: NodeSelection,
    state_path: str,
    body: Document,
    *,
    wait: float | None,
    destroys: str = "",
    disturbs: str = "",
) -> None:
    """
    Request a state for nodes, and follow the operations.

    state_path: last part of the path, as power. wait: timeout in seconds, if it waits.
    destroys, disturbs: as in `bulk.for_each_node`.

    Raises NotYet, Failure.
    """
    verb = body["target"]
    end = time.monotonic() + (wait or 0)

    def act(api: Api, node: str) -> Outcome:
        answer = api.request("PUT", "nodes", node, "states", state_path, body=body)
        request_id = answer.headers.get("Openstack-Request-Id")
        operation = operation_progress.find_operation(api, node, verb, request_id)
        if operation is None:
            return read_state(api, node)
        text = f"{node}: {verb} accepted, operation {operation['uuid']}; --wait would follow it"
        return Outcome(operation, text)

    def then(api: Api, node: str, result: Outcome) -> Outcome:
        if "uuid" not in result.document:
            return result
        seconds_left = max(end - time.monotonic(), 0)
        operation = watch(
            api, output, node, result.document["uuid"], seconds_left, bar=bool(selection.only_node)
        )
        operation_progress.require_success(operation, node, verb)
        return read_state(api, node, operation)

    bulk.for_each_node(
        api,
        output,
        selection,
        act,
        then if wait is not None else None,
        destroys=destroys,
        disturbs=disturbs,
    )


def watch(api: Api, output: Output, node: str, uuid: str, seconds: float, *, bar: bool) -> Document:
    """Return the operation once it has ended. bar: show its steps and a progress bar."""
    if not bar:
        return operation_progress.follow(api, node, uuid, seconds, lambda _operation: None)
    from app.cli.progress_display import Display  # slow to import, and only for --wait

    with Display(node, console(output.colour, stderr=True)) as display:
        return operation_progress.follow(api, node, uuid, seconds, display.show)


def read_state(api: Api, node: str, operation: Document | None = None) -> Outcome:
    """Read the state of a node after a request; scripts get its states, or the operation."""
    states = api.get("nodes", node, "states")
    power = f", {states['power_state']}" if operation else ""
    return Outcome(operation or states, f"{node}: {states['provision_state']}{power}")


def rehearse(api: Api, output: Output, node: str, body: Document) -> None:
    """Print the dry run of a verb with its steps. Raises Failure: the verb is refused."""
    result = rehearsal(api, node, body)
    if result["accepted"]:
        output.result(*accepted(node, result))
        if output.people:
            output.items(result["steps"], STEP_COLUMNS)
            for sentence in foreseen(result):
                output.say(sentence)
    elif not output.people:
        output.item(result)
    accepted(node, result)


def foreseen(result: Document) -> list[str]:
    """Tell what the agent would do, and which steps before it destroy data, by a dry run."""
    agent = result.get("agent")
    summary = agent["summary"] if agent else ""
    return [
        *([summary] if summary else []),
        *(
            joined(consequence)
            for consequence in result.get("destroys") or ()
            if consequence not in summary
        ),
    ]


def rehearsal(api: Api, node: str, body: Document) -> Document:
    query = body | {"dry_run": True}
    document: Document = api.request("PUT", "nodes", node, "states", "provision", body=query).json()
    return document


def accepted(node: str, result: Document) -> Outcome:
    """Format the result of a dry run. Raises Failure: the verb is refused."""
    if result["refused"]:
        raise Failure(joined(*(refusal["reason"] for refusal in result["refused"])))
    return Outcome(
        result, f"{node}: {result['from']} -> {result['to']}, in {len(result['steps'])} steps"
    )


def offered(api: Api, output: Output, node: str, flow: str, min_priority: float | None) -> None:
    """
    List the steps that a node offers in a flow.

    Raises NotYet: the agent has not listed its steps yet. Raises Failure.
    """
    answer = api.request("GET", "nodes", node, flow, "steps", query={"min_priority": min_priority})
    if answer.status_code == 202:
        seconds = int(answer.headers.get("Retry-Request-After", -1))
        hint = f"Retry in {seconds} seconds." if seconds > 0 else "Retry once it has run."
        raise NotYet(f"{answer.json()['message']} {hint}")
    steps = answer.json()
    if output.people:
        steps = [
            step | {"args": [_argument(argument) for argument in step["args"]]} for step in steps
        ]
    output.items(steps, ("interface", "step", "priority", "abortable", "args"))


def _argument(arg: Document) -> str:
    return f"{arg['name']} (required)" if arg["required"] else str(arg["name"])


MinPriority = Annotated[
    float | None,
    # the second form is that of the Ironic specification of manual cleaning
    typer.Option(
        "--min-priority", "--min_priority", metavar="N", help="Only steps of at least this priority"
    ),
]


def clean_steps(api: Api, output: Output, node: Node, min_priority: MinPriority = None) -> None:
    """List the clean steps of a node; --min-priority 1 selects the steps of automated cleaning."""
    offered(api, output, node, "cleaning", min_priority)


def deploy_steps(api: Api, output: Output, node: Node, min_priority: MinPriority = None) -> None:
    """List the deploy steps of a node."""
    offered(api, output, node, "deploy", min_priority)


def service_steps(api: Api, output: Output, node: Node, min_priority: MinPriority = None) -> None:
    """List the service steps of a node."""
    offered(api, output, node, "service", min_priority)
