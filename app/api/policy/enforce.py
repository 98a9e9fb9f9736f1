"""
Policy enforcement: checks of a request's rules, narrowed lists, hidden fields.

A route names one rule (`Routes.declare`); for some rules the body of the request determines which
rules are checked. Nothing is checked for callers who are not `restricted`.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cache
from typing import Any

from flask import current_app, g, request
from sqlalchemy import ColumnElement, Select, false, or_, select, true

from app.api.answers import runtime
from app.api.auth import AUTHENTICATE, caller
from app.api.masking import redacted
from app.api.policy import by_body
from app.api.policy.defaults import RULES
from app.api.policy.file import Policy
from app.api.policy.targets import NOTHING, OWNED, SEE_NODE, Facts, Owned, of_node
from app.errors import Conflict, Forbidden, Invalid, NotFound
from app.masking import mask
from app.models import Base, Node
from app.states import State

POLICY = "policy"
USE_RUNBOOK = "baremetal:runbook:use"

_NODES = OWNED["/nodes/<>"]
_RUNBOOKS = OWNED["/runbooks/<>"]

#: Rule -> rule checked if it fails, with `[api]project_admin_can_manage_own_nodes`.
ON_OWN_NODES = {
    rule: f"{rule}:self_owned_node" for rule in ("baremetal:node:create", "baremetal:node:delete")
}


class Extent(Enum):
    """Rows of a list that a caller may see."""

    NONE = "none"
    OWN = "own"  # those of the caller's project
    ALL = "all"


@dataclass(frozen=True, slots=True)
class AnyOwner:
    """The rule for creating a resource of any owner."""

    rule: str
    error: type[Forbidden | Invalid]  # of a project's caller who fails it and names another owner
    or_none: bool = True  # callers of the system need it for a resource without an owner, too


#: Kind of a new resource -> rule for setting any owner.
ANY_OWNER: Mapping[str, AnyOwner] = {
    "node": AnyOwner("baremetal:node:create", Invalid),
    "allocation": AnyOwner("baremetal:allocation:create_restricted", Forbidden),
    "runbook": AnyOwner("baremetal:runbook:update:owner", Invalid, or_none=False),
    "webhook": AnyOwner("baremetal:webhook:create_restricted", Invalid),
}
#: Fields of a node with a rule of their own for reading.
REDACTED = ("last_error", "reservation", "driver_info", "driver_internal_info")
_NONE: frozenset[str] = frozenset()


def check(rule: str, owned: Owned | None, ident: str | None, read: Callable[[], Any]) -> None:
    """
    Check the rules of the current request.

    rule: of the route. owned, ident: kind and identifier of the resource that the path names.
    read: decodes the body; called only for rules that depend on it.

    Raises Forbidden: the caller fails a rule.
    Raises NotFound: the caller is of a project and must not learn that the resource exists.
    Raises Invalid: the body names a node that the caller may not see.
    """
    facts, public = NOTHING, False
    if owned is not None:
        ident = ident or request.args.get("node") or request.args.get("node_uuid")
        facts, public = _seen(owned, ident or "")
    if f"{rule}_all" in RULES:
        narrow(rule)
        return
    document = read() if rule in by_body.RULES else None
    rules = by_body.required(rule, document)
    if owned is None and rule in by_body.ON_NAMED_NODE:
        facts = _facts_of_node(by_body.first_value(document, "node_uuid", "node_ident"))
    if not (public and owned is not None and owned.sees in rules):
        _require(rules, facts)
    new_node = by_body.first_value(document, "node_uuid") if rule in by_body.ON_NAMED_NODE else None
    if owned is not None and new_node:
        _require(rules, _facts_of_node(new_node))
    for field in by_body.MENTIONS.get(rule, ()):
        _check_mentioned_nodes(field, by_body.value_of(document, field))
    if rule == by_body.PROVISIONING and (runbook := by_body.value_of(document, "runbook")):
        _check_runbook(str(runbook))


def _seen(owned: Owned, ident: str) -> tuple[Facts, bool]:
    """
    Return the facts about a resource, and whether it is public.

    Raises NotFound, Forbidden: the caller must not learn that the resource exists.
    """
    found = owned.find(ident)
    if found is None:
        if caller().project_id:
            raise NotFound(owned.kind, ident)
        return NOTHING, False  # the handler raises NotFound, if the caller passes the rule
    if not (found[1] or _allows(owned.sees, found[0])):
        raise NotFound(owned.kind, ident) if caller().project_id else _forbidden(owned.sees)
    return found


def confirm_narrowed(handler: str) -> None:
    """
    Check that the handler of a list has applied `narrowed` where the policy demands it.

    Raises RuntimeError: it has not, which is a defect.
    """
    if g.get("narrow_to") and not g.get("narrowed"):
        raise RuntimeError(f"{handler} does not narrow its list")


def narrow(rule: str) -> None:
    """
    Have `narrowed` limit the list to the caller's project, unless the caller may list all.

    rule: of a list. Raises Forbidden.
    """
    if not caller().restricted or _allows(f"{rule}_all", NOTHING):
        return
    _require((rule,), NOTHING)
    g.narrow_to = caller().project_id
    if g.narrow_to is None:
        raise _forbidden(rule)


def extent(rule: str) -> Extent:
    """Return what the caller may see of the list with this rule."""
    if not caller().restricted:
        return Extent.ALL
    is_narrowed = f"{rule}_all" in RULES
    if _allows(f"{rule}_all" if is_narrowed else rule, NOTHING):
        return Extent.ALL
    may_list = is_narrowed and caller().project_id and _allows(rule, NOTHING)
    return Extent.OWN if may_list else Extent.NONE


def narrowed(selected: Select[Any], model: type[Base]) -> Select[Any]:
    """Limit a query for rows of `model` to those that the caller may list."""
    if not is_narrow():
        return selected
    g.narrowed = True
    return selected.where(listable(model))


def listable(model: type[Base]) -> ColumnElement[bool]:
    """Return the condition of the rows of `model` that the caller may list."""
    project = g.get("narrow_to")
    if project is None:
        return true()
    owned = _kind_of(model)
    if owned is None:
        return false()
    theirs = or_(*(column == project for column in owned.owners))
    if model is not Node and owned.is_part_of_node:
        theirs = model.__table__.c.node_id.in_(select(Node.id).where(theirs))
    if owned.public is not None:
        theirs = or_(theirs, owned.public)
    return theirs


def listed_project() -> str | None:
    """Return the project to which the handler must limit the list itself; None: to none."""
    g.narrowed = True
    project: str | None = g.get("narrow_to")
    return project


def _kind_of(model: type[Base]) -> Owned | None:
    return next((each for each in OWNED.values() if each.model is model), None)


def renew(rule: str) -> None:
    """
    Authenticate the caller of the current request again, and check the rule of a list.

    For a response that takes long: its caller may lose access meanwhile.

    Raises ServiceError: the caller has lost it.
    """
    g.caller = current_app.extensions[AUTHENTICATE](request, g.request_id)
    g.pop("narrow_to", None)
    if caller().restricted:
        check(rule, None, None, dict)


def is_narrow() -> bool:
    """Return whether `narrowed` limits the list to the caller's project."""
    return g.get("narrow_to") is not None


def denial(rule: str, document: Any) -> Callable[[str | None, str | None], str | None]:
    """
    Return a function of owner and lessee of a node: the reason why the caller may not send it a
    request of this rule with this body, or None.

    Raises NotFound, Forbidden: the body names a runbook that the caller may not use.
    """
    if not caller().restricted:
        return lambda _owner, _lessee: None
    rules = by_body.required(rule, document)
    if rule == by_body.PROVISIONING and (runbook := by_body.value_of(document, "runbook")):
        _check_runbook(str(runbook))

    @cache
    def reason(owner: str | None, lessee: str | None) -> str | None:
        facts = of_node(owner, lessee)
        denied = next((each for each in rules if not _allows(each, facts)), None)
        return denied and str(_forbidden(denied))

    return reason


def with_owner(kind: str, fields: Mapping[str, Any]) -> dict[str, Any]:
    """
    Add the owner to the fields of a new resource: the caller's project, unless any is allowed.

    Raises Invalid, Forbidden: the fields name another owner.
    """
    who, needed = caller(), ANY_OWNER[kind]
    if not who.restricted or _policy().allows(needed.rule, who, NOTHING):
        return dict(fields)
    owner, public = fields.get("owner"), fields.get("public")
    if who.project_id is None:
        if needed.or_none or owner is not None or public:
            raise _forbidden(needed.rule)
        return dict(fields)
    if owner not in (None, who.project_id):
        raise needed.error(f"owner: must be your project, which is {who.project_id}")
    if public:
        raise needed.error(
            f"public: a {kind} is made public only by callers who pass {needed.rule}"
        )
    return {**fields, "owner": who.project_id}


def check_new_owner(node: Node) -> None:
    """
    Check that the caller may change the owner of a node.

    Raises Conflict: the node is active, and the caller fails the rule for that.
    """
    if node.provision_state != State.ACTIVE or not caller().restricted:
        return
    rule = "baremetal:node:update_owner_provisioned"
    facts = of_node(node.owner, node.lessee)
    if not _allows(rule, facts):
        raise Conflict(f"owner: cannot be changed while node {node.uuid} is active ({rule})")


def vif_project(ident: str) -> str | None:
    """Return the project whose VIFs the caller may attach to a node; None: those of all."""
    if not caller().restricted or _allows("baremetal:node:vif:attach_any", _facts_of_node(ident)):
        return None
    return caller().project_id or ""


def hidden_fields(owner: str | None, lessee: str | None) -> frozenset[str]:
    """Return the fields that the caller must not see of a node of this owner and lessee."""
    if not caller().restricted:
        return _NONE
    facts = of_node(owner, lessee)
    if _allows(f"{SEE_NODE}:filter_threshold", facts):
        return _NONE
    return frozenset(name for name in REDACTED if not _allows(f"{SEE_NODE}:{name}", facts))


def check_sort_key(field: str) -> None:
    """
    Check that the caller sees a field of all nodes of a list: their order discloses its values.

    Raises Forbidden.
    """
    if is_narrow() and field in hidden_fields(None, caller().project_id):
        raise Forbidden(
            f"sort_key: {field} is hidden from you in nodes that your project only leases"
            f" ({SEE_NODE}:{field})."
        )


def shows_secrets(rule: str) -> bool:
    """Return whether the caller sees secrets: passes one of the rules in `SECRETS`."""
    policy = current_app.extensions[POLICY]
    return policy is not None and policy.allows(rule, caller(), NOTHING)


def target_properties(document: Any) -> Any:
    """Mask the secrets in `properties` of a volume target, or redact them by the policy."""
    rule = "baremetal:volume:view_target_properties"
    if not caller().restricted or _allows(rule, NOTHING):
        return mask(document)
    return {"redacted_contents": redacted(rule)}


def _policy() -> Policy:
    policy: Policy = current_app.extensions[POLICY]
    return policy


def _allows(rule: str, facts: Facts) -> bool:
    policy, who = _policy(), caller()
    if policy.allows(rule, who, facts):
        return True
    other = ON_OWN_NODES.get(rule)
    own_nodes = runtime().settings.api.project_admin_can_manage_own_nodes
    return other is not None and own_nodes and policy.allows(other, who, facts)


def _require(rules: Iterable[str], facts: Facts) -> None:
    for rule in rules:
        if not _allows(rule, facts):
            raise _forbidden(rule)


def _forbidden(rule: str) -> Forbidden:
    return Forbidden(f"Access was denied: {rule} is not allowed to you.")


def _facts_of_node(ident: Any) -> Facts:
    found = _NODES.find(ident) if isinstance(ident, str) else None
    return found[0] if found else NOTHING


def _check_mentioned_nodes(field: str, value: Any) -> None:
    """
    Check that the caller may see the nodes that a field names.

    A parent node must belong to the caller's project, unless the caller may change that field.

    Raises Invalid.
    """
    for ident in value if isinstance(value, list) else [value]:
        if not isinstance(ident, str):
            continue
        facts = _facts_of_node(ident)
        allowed = _allows(SEE_NODE, facts)
        if allowed and field == "parent_node" and not _allows(by_body.NODE_FIELDS[field], facts):
            allowed = facts.get("node.owner") == caller().project_id
        if not allowed:
            raise Invalid(f"{field}: there is no node {ident}")


def _check_runbook(ident: str) -> None:
    """
    Check that the caller may use a runbook.

    Raises NotFound, Forbidden.
    """
    facts, public = _seen(_RUNBOOKS, ident)
    if not public:
        _require((USE_RUNBOOK,), facts)
