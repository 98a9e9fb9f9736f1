"""Routes below /v1/nodes/{node}/states: power and provision state."""

import re
from collections.abc import Mapping, Sequence
from types import NoneType
from typing import Any

from flask import Response
from sqlalchemy.orm import Session
from werkzeug.exceptions import MethodNotAllowed

from app.api.declarations import versions
from app.api.node import node_query, node_view
from app.api.node.node_identifiers import identified, key_of, locked, node_of, uuid_of
from app.api.node.node_shapes import NODE_STATES, STEP
from app.api.openapi.returns import PROGRESS, STARTED, Returns
from app.api.openapi.shapes import (
    BOOLEAN,
    INTEGER,
    TEXT,
    TIME,
    UUID,
    Component,
    array,
    exactly,
    one_of,
    or_null,
)
from app.api.request import repeats
from app.api.request.context import RequestContext
from app.api.request.long_polls import long_polling
from app.api.request.redaction import concealer
from app.api.request.routes import Routes
from app.api.request.transactions import in_transaction
from app.api.schemas.nodes import PowerTarget, ProvisionTarget, StatesQuery
from app.api.transport.responses import empty, json
from app.engine import power, provisioning
from app.errors import Invalid, NotFound, ServiceError
from app.inventory.idle import is_idle
from app.lifecycle import flows
from app.lifecycle.provision_states import VERBS, State, allows
from app.models import Node, OperationStep, StepSource
from app.planning.step_views import step_view
from app.reports import rehearsal
from drivers.core.interface_kinds import SOFT_OFF, SOFT_REBOOT
from drivers.core.steps import Flow

node_states = Routes("states", "Power and provision states of a node")

Fields = dict[str, Any]

_BASE64 = re.compile(r"[A-Za-z0-9+/=\s]+")
#: Key of a configdrive -> the minor version that introduced it, and the accepted types.
CONFIGDRIVE: Mapping[str, tuple[int, tuple[type, ...]]] = {
    "meta_data": (56, (dict,)),
    "network_data": (56, (dict,)),
    "user_data": (56, (dict, list, str, NoneType)),
    "vendor_data": (59, (dict,)),
}
#: Argument -> the verbs that accept it.
TAKEN_BY: Mapping[str, tuple[str, ...]] = {
    "clean_steps": ("clean",),
    "deploy_steps": ("active", "deploy", "rebuild"),
    "service_steps": ("service",),
    "rescue_password": ("rescue",),
    "disable_ramdisk": ("clean", "service"),
    "runbook": ("clean", "service"),
}
REQUIRED = {"clean": "clean_steps", "service": "service_steps", "rescue": "rescue_password"}

REHEARSED_STEP = Component("RehearsedStep", exactly(
    {**STEP, "source": one_of(StepSource), "in_band": BOOLEAN, "child_node": or_null(UUID)}
))  # fmt: skip
REHEARSAL = Component("Rehearsal", exactly(
    {
        "node_uuid": UUID, "target": TEXT, "from": one_of(State), "to": TEXT, "accepted": BOOLEAN,
        "refused": array(exactly({"status": or_null(INTEGER), "reason": TEXT})),
        "steps": array(REHEARSED_STEP),
        "destroys": array(TEXT),
        "agent": or_null(exactly({
            "after": TEXT, "reported_at": or_null(TIME), "steps": array(REHEARSED_STEP),
            "problems": array(TEXT), "summary": TEXT,
        })),
    },
    optional=["to", "destroys", "agent"],
))  # fmt: skip


@node_states.declare(
    "GET", "/nodes/<ident>/states", rule="baremetal:node:get_states", returns=NODE_STATES
)
@node_states.arguments(StatesQuery, location="query")
def show_states(context: RequestContext, query: Fields, ident: str) -> Response:
    """
    Show the states of a node; with `wait`, once no operation is in progress

    With `wait`, status 429: too many requests of the caller wait already; 503: of all callers
    """
    fields = context.version.visible("node", node_query.STATES)
    if seconds := query.get("wait", 0):
        with long_polling(context, seconds) as poll:
            condition, uuid = identified(context, ident), uuid_of(context, ident)
            poll.wait_until(
                lambda: is_idle(context.runtime, condition), lambda event: event.node_uuid == uuid
            )
    document = node_view.one(context, key_of(context, ident), fields, linked=False)
    if document is None:
        raise NotFound("node", ident)
    return json(document)


@node_states.declare(
    "PUT", "/nodes/<ident>/states/power", rule="baremetal:node:set_power_state", returns=STARTED
)
@node_states.arguments(PowerTarget, location="json_or_query")
def change_power(context: RequestContext, fields: Fields, ident: str) -> Response:
    """Change the power of a node"""
    target, timeout = fields["target"], fields.get("timeout")
    check_power(context, target, timeout)
    requester = context.caller
    context.audit.specify(target)

    def work(session: Session) -> None:
        power.request(session, locked(context, session, ident), target, timeout, requester)

    return in_transaction(context, work, _accepted(context, ident))


@node_states.declare(
    "PUT",
    "/nodes/<ident>/states/provision",
    rule="baremetal:node:set_provision_state",
    returns=Returns({202: None, 200: REHEARSAL}, PROGRESS),
)
@node_states.arguments(ProvisionTarget, location="json_or_query")
def change_provision_state(context: RequestContext, fields: Fields, ident: str) -> Response:
    """Request a change of the provision state; with `dry_run`, return its steps only"""
    verb, dry_run = fields.pop("target"), fields.pop("dry_run", False)
    if verb not in versions.LATE_VERBS:
        context.version.require(versions.VERBS.get(verb, versions.MIN), f"target {verb}")
    arguments = {
        name: value
        for name, value in fields.items()
        if value is not None and (value or not name.endswith("_steps"))
    }
    if verb in VERBS:
        context.audit.specify(verb)
    if dry_run:
        repeats.refuse(context.request, repeats.DRY_RUN)
        return json(_rehearsed(context, ident, verb, arguments))
    check_arguments(context, verb, arguments)
    requester = context.caller

    def work(session: Session) -> None:
        node = locked(context, session, ident)
        check_state(context, verb, node.provision_state)
        provisioning.request(session, node, verb, arguments, requester)

    return in_transaction(context, work, _accepted(context, ident))


# Writes to unknown paths below the states are answered with 405, not with 404.
node_states.refused("/nodes/<ident>/states/<other>", lambda: MethodNotAllowed(["GET"]))


def _rehearsed(context: RequestContext, ident: str, verb: str, arguments: Fields) -> Fields:
    """Document of a dry run: the steps of the verb, or the reasons of its refusal."""
    with context.runtime.reading() as session:
        node = node_of(context, session, ident)
        document: Fields = {"node_uuid": node.uuid, "target": verb, "from": node.provision_state}
        try:
            check_arguments(context, verb, arguments)
            check_state(context, verb, node.provision_state)
            intent = provisioning.decide(session, node, verb, arguments, context.caller)
        except ServiceError as error:
            refusal = {"status": error.status, "reason": concealer(context, node)(str(error))}
            return document | {"accepted": False, "refused": [refusal], "steps": []}
        return document | {
            "accepted": True,
            "to": provisioning.leads_to(intent),
            "refused": [
                {"status": None, "reason": concealer(context, node)(error)}
                for error in intent.step_errors
            ],
            "steps": _steps(intent.rows),
            **_foreseen(context, session, node, intent),
        }


def _steps(rows: Sequence[OperationStep]) -> list[Fields]:
    return [
        step_view(row) | {"source": row.source, "in_band": row.in_band, "child_node": row.child}
        for row in rows
    ]


def _foreseen(
    context: RequestContext, session: Session, node: Node, intent: provisioning.Intent
) -> Fields:
    """Tell what the agent would do, and what the steps destroy."""
    part = rehearsal.agent_part(session, node, intent)
    later = part.steps if part else ()
    later_labels = {row.label for row in later}
    document = None
    if part is not None:
        document = {
            "after": part.report_step,
            "reported_at": part.reported_at,
            "steps": _steps(part.steps),
            "problems": [concealer(context, node)(problem) for problem in part.problems],
            "summary": concealer(context, node)(part.summary),
        }
    rows = [*(row for row in intent.rows if row.label not in later_labels), *later]
    return {"destroys": rehearsal.destroyed(rows), "agent": document}


def _accepted(context: RequestContext, ident: str) -> Response:
    return empty(202, location=f"{context.base_url}/v1/nodes/{ident}/states")


def check_power(context: RequestContext, target: str, timeout: int | None) -> None:
    """Check the microversion that a power request requires. Raises NotAcceptable."""
    if target in (SOFT_OFF, SOFT_REBOOT) or timeout is not None:
        context.version.require(27, "soft power, or a timeout,")


def check_state(context: RequestContext, verb: str, state: str) -> None:
    """Check the microversion that the verb requires in this state. Raises NotAcceptable."""
    if verb == "abort":
        context.version.require(versions.ABORTS.get(state, versions.MIN), f"abort in {state}")
    if verb in versions.LATE_VERBS and allows(state, VERBS[verb]):
        context.version.require(versions.VERBS[verb], f"target {verb}")


def check_arguments(context: RequestContext, verb: str, arguments: Fields) -> None:  # noqa: C901, PLR0912 - one branch per argument
    """
    Check that the verb takes the arguments, and that none which it requires is missing.

    Raises Invalid, NotAcceptable.
    """
    if arguments.get("configdrive") not in (None, {}, ""):
        check_configdrive(context, verb, arguments["configdrive"])
    if "runbook" in arguments:
        context.version.require(92, "runbook")
        for name in arguments:
            if name.endswith("_steps"):
                raise Invalid(f'Please provide either "{name}" or a runbook, but not both.')
    if "disable_ramdisk" in arguments:
        context.version.require(108 if verb == "service" else 70, "disable_ramdisk")
    if "deploy_steps" in arguments:
        context.version.require(69, "deploy_steps")
    for name, verbs in TAKEN_BY.items():
        if name in arguments and verb not in verbs:
            if name == "disable_ramdisk":
                raise Invalid("disable_ramdisk is supported only with manual cleaning or servicing")
            raise Invalid(
                f'"{name}" is only valid when setting target provision state to'
                f" {' or '.join(verbs)}"
            )
        if name in arguments and name.endswith("_steps"):
            check_allowed(context, name, arguments[name])
    required_name = REQUIRED.get(verb)
    value = arguments.get(required_name or "")
    if isinstance(value, str):
        value = value.strip()
    if required_name and not value and "runbook" not in arguments:
        filled = "A non-empty " if verb == "rescue" else ""
        raise Invalid(
            f'{filled}"{required_name}" is required when setting target provision state to {verb}'
        )


def check_allowed(context: RequestContext, name: str, steps: Sequence[Mapping[str, Any]]) -> None:
    """Refuse steps that the settings forbid. Raises Invalid."""
    setting = flows.of_steps(Flow(name.removesuffix("_steps"))).forbidden_steps
    forbidden = getattr(context.runtime.settings.api, setting) if setting else ()
    for step in steps:
        label = f"{step.get('interface')}.{step['step']}"
        if label in forbidden:
            raise Invalid(f"{name}: {label} is not allowed here")


def check_configdrive(context: RequestContext, verb: str, value: Any) -> None:
    """
    Check that the verb takes a configuration drive, in a form of the request's version.

    Raises Invalid.
    """
    if verb not in ("active", "rebuild") or (verb == "rebuild" and context.version < 35):
        raise Invalid(f"configdrive: not taken by {verb}")
    if isinstance(value, dict):
        if context.version < 56:
            raise Invalid("configdrive: an object needs API version 1.56")
        for key, part in value.items():
            since, types = CONFIGDRIVE.get(key, (versions.MAX + 1, ()))
            if context.version < since:
                raise Invalid(f"configdrive: {key!r} is not known")
            if not isinstance(part, types):
                raise Invalid(f"configdrive: {key} is of the wrong type")
    elif not isinstance(value, str) or not ("://" in value or _BASE64.fullmatch(value)):
        raise Invalid("configdrive: neither an object, a URL, nor base64")
