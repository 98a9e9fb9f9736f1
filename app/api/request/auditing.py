"""
Audit of requests: each write, denied request, login, and answer with secrets is one record.

The record of a change is inserted in the transaction of the change, that of a call to a conductor
before the call. Answers with secrets and successful writes without a transaction are recorded
before the answer is sent. Other requests without success go to `RefusedRequests`. Requests of
agents and BMCs are recorded only if they are refused: there are too many.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from flask import Request, Response
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from app.api.authentication.audit_trail import AuditTrail
from app.api.declarations.public_paths import is_of_agents, is_of_bmcs
from app.api.request.context import RequestContext
from app.api.transport import errors
from app.api.transport.host_check import WRITING
from app.audit import audit_records
from app.audit.audit_records import Row
from app.audit.refused_requests import RefusedRequests
from app.db.transactions import call_after_commit, connection_of
from app.errors import Unavailable
from app.models import Outcome
from app.observe import log
from app.runtime import Runtime

logger = log.get(__name__)

VERBS = {"POST": "create", "PUT": "update", "PATCH": "update", "DELETE": "delete", "GET": "read"}
DENIED = (401, 403, 429)
LOGIN = "authenticate/login"
#: Derived name of an action -> its name.
NAMED = {
    "create/login": LOGIN,
    "read/login/oidc/callback": f"{LOGIN}/oidc",
    "create/login/scope": "authenticate/scope",
    "create/logout": "authenticate/logout",
}
#: Words in paths that are no plurals.
SINGULAR = ("bios", "chassis")


@dataclass(frozen=True, slots=True)
class Action:
    """Name and target of the requests of a route, derived from its method and path."""

    name: str  # as update/node/state/provision
    kind: str  # of the resource that the path names, as node
    parameter: str  # of the path, with its identifier; empty for a collection
    status: int  # of success


#: Endpoint -> its action.
_ACTIONS: dict[str, Action] = {}


def declare(endpoint: str, method: str, path: str, status: int) -> None:
    """Declare the action of a route."""
    words = re.sub("<[^>]*>", "", path).strip("/").split("/")
    leading_words = path.partition("<")[0].strip("/").split("/")
    parameter = re.search(r"<(?:[^>:]*:)?(\w+)>", path)
    derived = f"{VERBS[method]}/{_singular(words)}"
    _ACTIONS[endpoint] = Action(
        NAMED.get(derived, derived),
        _singular(leading_words),
        parameter[1] if parameter else "",
        status,
    )


def _singular(words: Sequence[str]) -> str:
    return "/".join(word if word in SINGULAR else word.removesuffix("s") for word in words if word)


def refused_requests(runtime: Runtime) -> RefusedRequests | None:
    """Return the recorder of requests without success, if `[audit]enabled` is on."""
    if not runtime.settings.audit.enabled:
        return None

    def write(records: Sequence[Row]) -> None:
        with runtime.write_connection() as connection:
            audit_records.add_all(connection, records)

    return RefusedRequests(write)


def record(context: RequestContext, session: Session, status: int | None = None) -> None:
    """Record the success of the request, in the transaction of its change, if it is not skipped."""
    trail = context.audit
    if context.services.refused_requests is None or trail.recorded:
        return
    audit_records.add(
        connection_of(session), _row(context, Outcome.SUCCESS, status or _action(context).status)
    )

    def recorded() -> None:
        trail.recorded = True

    call_after_commit(session, recorded)


def template(context: RequestContext) -> Row | None:
    """Return a record of the request's caller, for later actions of it, or None without audit."""
    if context.services.refused_requests is None:
        return None
    return _row(context, Outcome.SUCCESS, None)


def announce(context: RequestContext) -> None:
    """
    Record the request before a conductor is called; `finish` adds the outcome.

    Raises SQLAlchemyError: the request cannot be recorded, and must not be executed.
    """
    trail = context.audit
    if context.services.refused_requests is None or trail.pending is not None:
        return
    with context.runtime.write_connection() as connection:
        trail.pending = audit_records.announce(connection, _row(context, Outcome.PENDING, None))


def finish(context: RequestContext, response: Response) -> Response:
    """Record what is not recorded yet; return the response, or an error if that fails."""
    refused_requests = context.services.refused_requests
    if refused_requests is None or (response.status_code < 400 and _is_plain_read(context)):
        return response
    try:
        if context.audit.logged_in:
            context.audit.logged_in = False
            _insert(context, _row(context, Outcome.SUCCESS, None) | _OF_LOGIN)
        _finish(context, refused_requests, response.status_code)
    except SQLAlchemyError as error:
        logger.warning("audit.failed", error=str(error))
        reason = "The audit record cannot be written, please retry."
        return errors.service_error(Unavailable(reason), context.request.environ)
    return response


def _is_plain_read(context: RequestContext) -> bool:
    """Whether the request is a read that leaves no record, as most are."""
    trail = context.audit
    return context.request.method == "GET" and not (
        trail.secrets or trail.logged_in or trail.pending is not None
    )


#: Columns of a login that differ from the columns of its request.
_OF_LOGIN: Row = {"action": LOGIN, "target_type": None, "target": None, "fields": None}


def _finish(context: RequestContext, refused_requests: RefusedRequests, status: int) -> None:
    trail, request = context.audit, context.request
    action = _ACTIONS.get(request.endpoint or "")
    if trail.recorded:
        return
    if trail.pending is not None:
        with context.runtime.write_connection() as connection:
            audit_records.settle(connection, trail.pending, _outcome(status), status)
    elif status in DENIED or (status >= 400 and action and _writes(context)):
        client = context.caller.user_id or context.services.limits.clients.key_of(request.environ)
        row = _row(context, _outcome(status), status)
        refused_requests.add(_of_agent(row, trail) if is_of_agents(request.path) else row, client)
    elif status < 400 and action and _is_recorded(context):
        _insert(context, _row(context, Outcome.SUCCESS, status))


def _of_agent(row: Row, trail: AuditTrail) -> Row:
    """Return the record of a refused request of an agent: of its node, if that is known."""
    return {**row, "auth": audit_records.AGENT, "reason": trail.reason, "target": trail.target}


def _is_recorded(context: RequestContext) -> bool:
    path = context.request.path
    writes = _writes(context) and not (is_of_agents(path) or is_of_bmcs(path))
    return bool(context.audit.secrets) or writes


def _writes(context: RequestContext) -> bool:
    return context.request.method in WRITING


def _insert(context: RequestContext, record: Row) -> None:
    with context.runtime.write_connection() as connection:
        audit_records.add(connection, record)


def _outcome(status: int) -> Outcome:
    if status in DENIED:
        return Outcome.DENIED
    return Outcome.SUCCESS if status < 400 else Outcome.FAILURE


_UNKNOWN = Action("", "", "", 0)


def _row(context: RequestContext, outcome: Outcome, status: int | None) -> Row:
    request, trail, requester = context.request, context.audit, context.caller
    action, arguments = _action(context), request.view_args or {}
    succeeded = outcome in (Outcome.SUCCESS, Outcome.PENDING)
    return audit_records.row(
        action=(action.name or f"{request.method.lower()}/unknown") + trail.detail,
        outcome=outcome.value,
        status=status,
        target_type=action.kind or None,
        target=trail.target or arguments.get(action.parameter),
        target_name=trail.target_name,
        user_id=requester.user_id,
        user_name=requester.user_name or trail.claimed_user,
        project_id=requester.project_id,
        project_name=requester.project_name,
        roles=",".join(requester.roles) or None,
        system_scope=requester.system_scope,
        auth=context.runtime.settings.default.auth_strategy,
        address=context.services.limits.clients.address_of(request.environ),
        user_agent=request.environ.get("HTTP_USER_AGENT"),
        request_id=context.request_id,
        fields=audit_records.listed(_names(request, action, trail)) if succeeded else None,
    )


def _names(request: Request, action: Action, trail: AuditTrail) -> list[str]:
    """Names that the request gives: shown secrets; then parts of the path, and changed fields."""
    names = [f"shown:{name}" for name in sorted(trail.secrets)]
    arguments = request.view_args or {}
    names += [str(value) for name, value in arguments.items() if name != action.parameter]
    if request.query_string:
        # a vendor function is named by the path, or by the query
        names += [request.args[name] if name == "method" else name for name in request.args]
    return [*names, *body_names(trail.document)]


#: Documents whose keys decide what the service connects to and trusts, and which disk it writes.
_DEEP = ("driver_info", "instance_info", "properties")
#: Lists of steps: of a verb, a runbook or a template.
_STEPS = ("clean_steps", "deploy_steps", "service_steps", "steps")


def body_names(document: object) -> list[str]:
    """
    Return the names of the fields in a body; of a JSON patch its paths, two levels of them.

    Keys of `_DEEP` documents are named also if the document is given as a whole, and steps as
    clean_steps/management.reset_bmc.
    """
    if isinstance(document, dict):
        members = document.items()
        return [name for field, value in members for name in (field, *_keys_of(field, value))]
    if not isinstance(document, list):
        return []
    names: list[str] = []
    for operation in document:
        path = operation.get("path") if isinstance(operation, dict) else None
        if isinstance(path, str):
            name = "/".join(path.split("/")[1:3])
            names += (name, *_keys_of(name, operation.get("value")))
    return list(dict.fromkeys(names))


def _keys_of(field: object, value: object) -> list[str]:
    if field in _DEEP and isinstance(value, dict):
        return [f"{field}/{key}" for key in value]
    if field in _STEPS and isinstance(value, list):
        steps = (step for step in value if isinstance(step, dict))
        names = (f"{field}/{step.get('interface')}.{step.get('step')}" for step in steps)
        return list(dict.fromkeys(names))
    return []


def _action(context: RequestContext) -> Action:
    return _ACTIONS.get(context.request.endpoint or "", _UNKNOWN)
