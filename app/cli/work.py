"""Verbs and power, what they would do, and waiting for what comes of them."""

from enum import StrEnum
from typing import Annotated

import typer

from app.cli import following, given
from app.cli.commands import Node
from app.cli.output import Output
from app.cli.rest import Api, Document, Failure, NotYet


class Verb(StrEnum):
    """As the API has them; what a node's state allows, the service says."""

    MANAGE = "manage"
    PROVIDE = "provide"
    INSPECT = "inspect"
    CLEAN = "clean"
    ADOPT = "adopt"
    ACTIVE = "active"
    DEPLOY = "deploy"
    REBUILD = "rebuild"
    DELETED = "deleted"
    UNDEPLOY = "undeploy"
    RESCUE = "rescue"
    UNRESCUE = "unrescue"
    SERVICE = "service"
    ABORT = "abort"
    UNHOLD = "unhold"


class Power(StrEnum):
    """What can be done to a machine's power."""

    ON = "on"
    OFF = "off"
    REBOOT = "reboot"


#: (at once, softly)
POWER = {
    Power.ON: ("power on", None),
    Power.OFF: ("power off", "soft power off"),
    Power.REBOOT: ("rebooting", "soft rebooting"),
}
STEP_COLUMNS = ("interface", "step", "source", "in_band", "args")


Wait = Annotated[
    float | None,
    typer.Option(metavar="[SECONDS]", min=0, help="Wait for the end, and tell each step"),
]
StepsGiven = Annotated[
    str | None, typer.Option(metavar="FILE|JSON|-", help="Steps to run, a list of them")
]


def provision_state(
    api: Api,
    out: Output,
    node: Node,
    verb: Verb,
    *,
    clean_steps: StepsGiven = None,
    deploy_steps: StepsGiven = None,
    service_steps: StepsGiven = None,
    runbook: Annotated[str | None, typer.Option(help="The steps of this runbook")] = None,
    config_drive: Annotated[
        str | None, typer.Option(metavar="FILE|JSON|URL", help="For the instance")
    ] = None,
    rescue_password: Annotated[str | None, typer.Option(help="For who logs in to rescue")] = None,
    disable_ramdisk: Annotated[
        bool | None, typer.Option("--disable-ramdisk", help="Run no agent for the steps")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only tell what would be")] = False,
    wait: Wait = None,
) -> None:
    """Ask a node for a verb: manage, provide, clean, deploy, ..."""
    lists = {
        "clean_steps": clean_steps, "deploy_steps": deploy_steps, "service_steps": service_steps,
    }  # fmt: skip
    body: Document = {"target": verb.value, "runbook": runbook}
    body |= {"rescue_password": rescue_password, "disable_ramdisk": disable_ramdisk}
    for name, text in lists.items():
        if text is not None:
            body[name] = given.document(f"--{name.replace('_', '-')}", text)
    if config_drive is not None:
        body["configdrive"] = given.config_drive("--config-drive", config_drive)
    body = {name: value for name, value in body.items() if value is not None}
    if dry_run:
        rehearse(api, out, node, body)
    else:
        ask(api, out, node, "provision", body, wait=wait)


def abort(api: Api, out: Output, node: Node, wait: Wait = None) -> None:
    """Stop what is done to a node."""
    ask(api, out, node, "provision", {"target": "abort"}, wait=wait)


def power(
    api: Api,
    out: Output,
    node: Node,
    state: Power,
    *,
    soft: Annotated[bool, typer.Option("--soft", help="Let the system shut down")] = False,
    timeout: Annotated[int | None, typer.Option(min=1, help="Seconds that it may take")] = None,
    wait: Wait = None,
) -> None:
    """Switch a node on or off, or reboot it."""
    target = POWER[state][soft]
    if target is None:
        raise Failure("--soft: only with off and reboot")
    body = {"target": target} | ({"timeout": timeout} if timeout else {})
    ask(api, out, node, "power", body, wait=wait)


def ask(api: Api, out: Output, node: str, what: str, body: Document, *, wait: float | None) -> None:
    """Ask for a state; with `wait`, follow to the end. Raises NotYet, Failure."""
    verb = body["target"]
    answer = api.ask("PUT", "nodes", node, "states", what, body=body)
    request_id = answer.headers.get("Openstack-Request-Id")
    operation = following.asked_for(api, node, verb, request_id)
    if operation is None:
        states = api.get("nodes", node, "states")
        out.told(states, f"{node}: {states['provision_state']}")
    elif wait is None:
        told = f"{node}: {verb} accepted, operation {operation['uuid']}; --wait would follow it"
        out.told(operation, told)
    else:
        operation = following.follow(api, node, operation["uuid"], wait)
        following.judge(operation, node, verb)
        states = api.get("nodes", node, "states")
        out.told(operation, f"{node}: {states['provision_state']}, {states['power_state']}")


def rehearse(api: Api, out: Output, node: str, body: Document) -> None:
    """Tell what a verb would do; raise Failure with what would be refused."""
    told: Document = api.ask(
        "PUT", "nodes", node, "states", "provision", body=body | {"dry_run": True}
    ).json()
    if told["accepted"]:
        out.told(told, f"{node}: {told['from']} -> {told['to']}, in {len(told['steps'])} steps")
        if out.people:
            out.items(told["steps"], STEP_COLUMNS)
    elif not out.people:
        out.item(told)
    if told["refused"]:
        raise Failure("; ".join(" ".join(each["reason"].split()) for each in told["refused"]))


def offered(api: Api, out: Output, node: str, flow: str, min_priority: float | None) -> None:
    """List the steps that a node offers in a flow. Raises NotYet, Failure."""
    answer = api.ask("GET", "nodes", node, flow, "steps", query={"min_priority": min_priority})
    if answer.status_code == 202:
        seconds = int(answer.headers.get("Retry-Request-After", -1))
        again = f"Retry in {seconds} seconds." if seconds > 0 else "Retry once it has run."
        raise NotYet(f"{answer.json()['message']} {again}")
    steps = answer.json()
    if out.people:
        steps = [step | {"args": [_argument(each) for each in step["args"]]} for step in steps]
    out.items(steps, ("interface", "step", "priority", "abortable", "args"))


def _argument(arg: Document) -> str:
    return f"{arg['name']} (required)" if arg["required"] else str(arg["name"])


Least = Annotated[
    float | None, typer.Option(metavar="N", help="Only steps of this priority and above")
]


def clean_steps(api: Api, out: Output, node: Node, min_priority: Least = None) -> None:
    """List the steps that can clean a node; --min-priority 1: those of automated cleaning."""
    offered(api, out, node, "cleaning", min_priority)


def deploy_steps(api: Api, out: Output, node: Node, min_priority: Least = None) -> None:
    """List the steps that can deploy a node."""
    offered(api, out, node, "deploy", min_priority)


def service_steps(api: Api, out: Output, node: Node, min_priority: Least = None) -> None:
    """List the steps that can serve a node in use."""
    offered(api, out, node, "service", min_priority)
