"""
Audit of requests: each write, denied request, login, and answer with secrets is one record.

The record of a change is inserted in the transaction of the change, that of a call to a conductor
before the call. Answers with secrets and successful writes without a transaction are recorded
before the answer is sent. Other requests without success go to `RefusedRequests`. Requests of
agents are recorded only if they are refused: there are too many.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from flask import Flask, Response, current_app, g, request
from flask.globals import app_ctx, request_ctx
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from app import log
from app.api import errors
from app.api.answers import runtime
from app.api.limits import LIMITS, Limits
from app.api.public_paths import is_of_agents
from app.api.sites import WRITING
from app.db.transactions import call_after_commit, connection_of
from app.errors import Unavailable
from app.kit import audit
from app.kit.audit import Row
from app.kit.caller import Caller
from app.kit.refused_requests import RefusedRequests
from app.models import Outcome
from app.runtime import Runtime

logger = log.get(__name__)

REFUSED = "refused_requests"
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
    named: str  # parameter of the path with its identifier; empty: a collection
    status: int  # of success


@dataclass(slots=True)
class Trail:
    """Facts about the current request that only its handler knows."""

    target: str | None = None
    target_name: str | None = None
    reason: str | None = None  # cause of the refusal of an agent's request
    detail: str = ""  # end of the action's name
    secrets: set[str] = field(default_factory=set)  # names of shown fields with secrets
    pending: int | None = None  # id of the announced record
    recorded: bool = False


#: Endpoint -> its action.
_ACTIONS: dict[str, Action] = {}


def declare(endpoint: str, method: str, path: str, status: int) -> None:
    """Declare the action of a route."""
    words = re.sub("<[^>]*>", "", path).strip("/").split("/")
    before = path.partition("<")[0].strip("/").split("/")
    named = re.search(r"<(?:[^>:]*:)?(\w+)>", path)
    derived = f"{VERBS[method]}/{_singular(words)}"
    _ACTIONS[endpoint] = Action(
        NAMED.get(derived, derived),
        _singular(before),
        named[1] if named else "",
        status,
    )


def _singular(words: Sequence[str]) -> str:
    return "/".join(word if word in SINGULAR else word.removesuffix("s") for word in words if word)


def register(app: Flask, runtime: Runtime) -> None:
    """Prepare the audit of an application, unless `[audit]enabled` is off."""
    app.extensions[REFUSED] = None
    if not runtime.settings.audit.enabled:
        return

    def write(records: Sequence[Row]) -> None:
        with runtime.write_connection() as connection:
            audit.add_all(connection, records)

    app.extensions[REFUSED] = RefusedRequests(write)


def concern(target: str, name: str | None = None) -> None:
    """Note UUID and name of the request's target, which its path may identify otherwise."""
    trail = _trail()
    trail.target, trail.target_name = target, name


def explain(reason: str, target: str | None) -> None:
    """Note why a request of an agent is refused, and the node; None: unknown."""
    trail = _trail()
    trail.reason, trail.target = reason, target


def specify(detail: str) -> None:
    """Note which of the route's actions is requested; `detail` is from a fixed list."""
    _trail().detail = f"/{detail.replace(' ', '_')}"


def show_secret(name: str) -> None:
    """Note that the answer has secrets. name: of the field that has them."""
    _trail().secrets.add(name)


def name_user(name: str) -> None:
    """Note the user of a login: the route records it, whether it succeeds or not."""
    g.claimed_user = name
    g.pop("logged_in", None)


def skip() -> None:
    """Note that the request repeats one that is recorded."""
    _trail().recorded = True


def record(session: Session, status: int | None = None) -> None:
    """Record the success of the request, in the transaction of its change, if it is not skipped."""
    trail = _trail()
    if _refused() is None or trail.recorded:
        return
    audit.add(connection_of(session), _row(Outcome.SUCCESS, status or _action().status))

    def recorded() -> None:
        trail.recorded = True

    call_after_commit(session, recorded)


def template() -> Row | None:
    """Return a record of the request's caller, for records of later actions; None: no audit."""
    return None if _refused() is None else _row(Outcome.SUCCESS, None)


def announce() -> None:
    """
    Record the request before a conductor is called; `finish` adds the outcome.

    Raises SQLAlchemyError: the request cannot be recorded, and must not be executed.
    """
    trail = _trail()
    if _refused() is None or trail.pending is not None:
        return
    with runtime().write_connection() as connection:
        trail.pending = audit.announce(connection, _row(Outcome.PENDING, None))


def finish(response: Response) -> Response:
    """Record what is not recorded yet; return the response, or an error if that fails."""
    refused = _refused()
    if refused is None or (response.status_code < 400 and _is_plain_read()):
        return response
    try:
        if g.pop("logged_in", False):
            _insert(_row(Outcome.SUCCESS, None) | _OF_LOGIN)
        _finish(refused, response.status_code)
    except SQLAlchemyError as error:
        logger.warning("audit.failed", error=str(error))
        why = "The audit record cannot be written, please retry."
        return errors.service_error(Unavailable(why), request.environ)
    return response


def _is_plain_read() -> bool:
    """Whether the request is a read that leaves no record, as most are."""
    return request.method == "GET" and "audit" not in g and "logged_in" not in g


#: Columns of a login that differ from those of the request that it came with.
_OF_LOGIN: Row = {"action": LOGIN, "target_type": None, "target": None, "fields": None}


def _finish(refused: RefusedRequests, status: int) -> None:
    trail, action = _trail(), _ACTIONS.get(request.endpoint or "")
    if trail.recorded:
        return
    if trail.pending is not None:
        with runtime().write_connection() as connection:
            audit.settle(connection, trail.pending, _outcome(status), status)
    elif status in DENIED or (status >= 400 and action and _writes()):
        client = g.get("caller", _STRANGER).user_id or _limits().clients.key_of(request.environ)
        row = _row(_outcome(status), status)
        refused.add(_of_agent(row, trail) if is_of_agents(request.path) else row, client)
    elif status < 400 and action and _is_recorded(trail):
        _insert(_row(Outcome.SUCCESS, status))


def _of_agent(row: Row, trail: Trail) -> Row:
    """Return the record of a refused request of an agent: of its node, if that is known."""
    return {**row, "auth": audit.AGENT, "reason": trail.reason, "target": trail.target}


def _is_recorded(trail: Trail) -> bool:
    return bool(trail.secrets) or (_writes() and not is_of_agents(request.path))


def _writes() -> bool:
    return request.method in WRITING


def _insert(record: Row) -> None:
    with runtime().write_connection() as connection:
        audit.add(connection, record)


def _outcome(status: int) -> Outcome:
    if status in DENIED:
        return Outcome.DENIED
    return Outcome.SUCCESS if status < 400 else Outcome.FAILURE


_STRANGER = Caller()
_UNKNOWN = Action("", "", "", 0)


def _row(outcome: Outcome, status: int | None) -> Row:
    current, facts = request_ctx.request, app_ctx.g  # Flask's proxies are slower
    trail, action, who = _trail(), _action(), facts.get("caller", _STRANGER)
    arguments = current.view_args or {}
    succeeded = outcome in (Outcome.SUCCESS, Outcome.PENDING)
    return audit.row(
        action=(action.name or f"{current.method.lower()}/unknown") + trail.detail,
        outcome=outcome.value,
        status=status,
        target_type=action.kind or None,
        target=trail.target or arguments.get(action.named),
        target_name=trail.target_name,
        user_id=who.user_id,
        user_name=who.user_name or facts.get("claimed_user"),
        project_id=who.project_id,
        project_name=who.project_name,
        roles=",".join(who.roles) or None,
        system_scope=who.system_scope,
        auth=runtime().settings.default.auth_strategy,
        address=_limits().clients.address_of(current.environ),
        user_agent=current.environ.get("HTTP_USER_AGENT"),
        request_id=facts.request_id,
        fields=audit.listed(_names(action, trail)) if succeeded else None,
    )


def _names(action: Action, trail: Trail) -> list[str]:
    """Names that the request gives: shown secrets; then parts of the path, and changed fields."""
    current = request_ctx.request
    names = [f"shown:{each}" for each in sorted(trail.secrets)]
    arguments = current.view_args or {}
    names += [str(value) for name, value in arguments.items() if name != action.named]
    if current.query_string:
        # a vendor function is named by the path, or by the query
        names += [current.args[name] if name == "method" else name for name in current.args]
    return [*names, *body_names(app_ctx.g.get("document"))]


#: Documents whose keys decide what the service connects to and trusts.
_DEEP = ("driver_info", "instance_info")


def body_names(document: Any) -> list[str]:
    """
    Return the names of the fields in a body; of a JSON patch its paths, two levels of them.

    Keys of `driver_info` and `instance_info` are named also if the document is given as a whole.
    """
    if isinstance(document, dict):
        given = document.items()
        return [name for field, value in given for name in (field, *_keys_of(field, value))]
    if not isinstance(document, list):
        return []
    names: list[str] = []
    for each in document:
        path = each.get("path") if isinstance(each, dict) else None
        if isinstance(path, str):
            name = "/".join(path.split("/")[1:3])
            names += (name, *_keys_of(name, each.get("value")))
    return list(dict.fromkeys(names))


def _keys_of(field: Any, value: Any) -> list[str]:
    return [f"{field}/{key}" for key in value] if field in _DEEP and isinstance(value, dict) else []


def _action() -> Action:
    return _ACTIONS.get(request_ctx.request.endpoint or "", _UNKNOWN)


def _trail() -> Trail:
    facts = app_ctx.g
    found: Trail | None = facts.get("audit")
    if found is None:
        found = facts.audit = Trail()
    return found


def _refused() -> RefusedRequests | None:
    found: RefusedRequests | None = current_app.extensions[REFUSED]
    return found


def _limits() -> Limits:
    found: Limits = current_app.extensions[LIMITS]
    return found
