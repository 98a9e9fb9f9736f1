"""
Access: what the policy is asked about a request, and what follows from the answer.

A route names a rule (`Routes.at`); the tables here say whose a thing is, and for which requests
the body decides which rules are meant. Callers who are not `restricted` pay for none of it.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from flask import current_app, g, request
from sqlalchemy import Select, false, or_, select

from app.api.answers import runtime
from app.api.auth import caller
from app.api.masking import mask, redacted
from app.api.owned import NOTHING, OF_NODE, OWNED, SEE_NODE, Facts, Owned, of_node
from app.api.policy import Policy
from app.api.rules import RULES
from app.errors import Conflict, Forbidden, Invalid, NotFound
from app.models import Base, Node
from app.states import State
from drivers.core.kinds import KINDS

POLICY = "policy"
USE_RUNBOOK = "baremetal:runbook:use"

_NODES = OWNED["/nodes/<>"]
_RUNBOOKS = OWNED["/runbooks/<>"]

#: Field of a node -> the rule for changing it, where that is not `baremetal:node:update`.
NODE_FIELDS: Mapping[str, str] = {
    "extra": "baremetal:node:update_extra",
    "instance_info": "baremetal:node:update_instance_info",
    "instance_name": "baremetal:node:update_instance_info",
    "driver": "baremetal:node:update:driver_interfaces",
    **{f"{kind}_interface": "baremetal:node:update:driver_interfaces" for kind in KINDS},
    "retired_reason": "baremetal:node:update:retired",
    **{
        name: f"baremetal:node:update:{name}"
        for name in (
            "driver_info", "properties", "instance_uuid", "lessee",
            "network_data", "name", "retired", "owner", "conductor_group", "parent_node",
            "chassis_uuid", "shard", "disable_power_off",
        )
    },
}  # fmt: skip
RUNBOOK_FIELDS: Mapping[str, str] = {
    "public": "baremetal:runbook:update:public",
    "owner": "baremetal:runbook:update:owner",
}
PROVISIONING = "baremetal:node:set_provision_state"
#: Rules that hold for the node that a body names, too.
ON_NAMED_NODE = {
    f"baremetal:{kind}:{verb}"
    for kind in ("port", "portgroup", "volume")
    for verb in ("create", "update")
}
#: Rule -> fields of the body that name nodes which the caller has to see.
MENTIONS: Mapping[str, tuple[str, ...]] = {
    "baremetal:node:create": ("parent_node",),
    "baremetal:node:update": ("parent_node",),
    "baremetal:allocation:create": ("node", "candidate_nodes"),
}
#: Rules of which the body says what is asked for.
BY_BODY = {
    "baremetal:node:update", "baremetal:runbook:update", PROVISIONING, *ON_NAMED_NODE, *MENTIONS,
}  # fmt: skip
#: What is asked where a rule fails, while `[api]project_admin_can_manage_own_nodes` is on.
ON_OWN_NODES = {
    rule: f"{rule}:self_owned_node" for rule in ("baremetal:node:create", "baremetal:node:delete")
}
#: What is created -> who may give it any owner, and what others are told who try.
ANY_OWNER: Mapping[str, tuple[str, type[Forbidden | Invalid]]] = {
    "node": ("baremetal:node:create", Invalid),
    "allocation": ("baremetal:allocation:create_restricted", Forbidden),
    "runbook": ("baremetal:runbook:update:owner", Invalid),
}
#: What not everybody sees who sees a node.
REDACTED = ("last_error", "reservation", "driver_info", "driver_internal_info")
_NONE: frozenset[str] = frozenset()


def check(rule: str, owned: Owned | None, ident: str | None, read: Callable[[], Any]) -> None:
    """
    Let the request pass that is being answered, or raise Forbidden; NotFound for what a caller of
    a project may not even see; Invalid for nodes in its body that he may not see.

    owned, ident: what the path names, if anything. read: gives the body.
    """
    facts, public = NOTHING, False
    if owned is not None:
        ident = ident or request.args.get("node") or request.args.get("node_uuid")
        facts, public = _seen(owned, ident or "")
    if f"{rule}_all" in RULES:
        _narrow(rule)
        return
    document = read() if rule in BY_BODY else None
    rules = _meant(rule, document)
    if owned is None and rule in ON_NAMED_NODE:
        facts = _facts_of_node(_named(document, "node_uuid", "node_ident"))
    if not (public and owned is not None and owned.sees in rules):
        _require(rules, facts)
    if owned is not None and rule in ON_NAMED_NODE and (moved := _named(document, "node_uuid")):
        _require(rules, _facts_of_node(moved))
    for field in MENTIONS.get(rule, ()):
        _check_mentioned(field, _value(document, field))
    if rule == PROVISIONING and (runbook := _value(document, "runbook")):
        _check_runbook(str(runbook))


def _seen(owned: Owned, ident: str) -> tuple[Facts, bool]:
    """The facts about a thing, and whether it is public. Raises NotFound, Forbidden."""
    found = owned.find(ident)
    if found is None:
        if caller().project_id:
            raise NotFound(owned.kind, ident)
        return NOTHING, False  # what is not there is told by the view, if the caller gets there
    if not (found[1] or _allows(owned.sees, found[0])):
        raise _concealed(owned.kind, ident, owned.sees)
    return found


def confirm_narrowed(view: Callable[..., Any]) -> None:
    """Raises RuntimeError when a list was to be narrowed and the view has not done it: a bug."""
    if g.get("narrow_to") and not g.get("narrowed"):
        raise RuntimeError(f"{view.__name__} does not narrow its list")


def _narrow(rule: str) -> None:
    """A list shows everything, or what is the caller's project's. Raises Forbidden."""
    if _allows(f"{rule}_all", NOTHING):
        return
    _require((rule,), NOTHING)
    g.narrow_to = caller().project_id
    if g.narrow_to is None:
        raise _forbidden(rule)


def narrowed(selected: Select[Any], model: type[Base]) -> Select[Any]:
    """The rows of `model`, selected, that the caller of a list may see."""
    project = g.get("narrow_to")
    if project is None:
        return selected
    g.narrowed = True
    owned = next((each for each in OWNED.values() if each.model is model), None)
    if owned is None:
        return selected.where(false())
    theirs = or_(*(column == project for column in owned.facts.values()))
    if model is not Node and owned.facts is OF_NODE:
        theirs = model.__table__.c.node_id.in_(select(Node.id).where(theirs))
    if owned.public is not None:
        theirs = or_(theirs, owned.public)
    return selected.where(theirs)


def own(kind: str, fields: Mapping[str, Any]) -> dict[str, Any]:
    """
    The fields of something new, whose owner is the caller's project unless he may choose.

    Raises Invalid or Forbidden for another owner.
    """
    asking = caller()
    anybody, refusal = ANY_OWNER[kind]
    if not asking.restricted or asking.system_scope or _policy().allows(anybody, asking, NOTHING):
        return dict(fields)
    if asking.project_id is None:
        raise _forbidden(anybody)
    if fields.get("owner") not in (None, asking.project_id):
        raise refusal(f"owner: must be your project, which is {asking.project_id}")
    if fields.get("public"):
        raise refusal(f"public: only those who pass {anybody} make a {kind} public")
    return {**fields, "owner": asking.project_id}


def check_new_owner(node: Node) -> None:
    """The owner of a node may be changed now. Raises Conflict."""
    if node.provision_state != State.ACTIVE or not caller().restricted:
        return
    rule = "baremetal:node:update_owner_provisioned"
    facts = of_node(node.owner, node.lessee)
    if not _allows(rule, facts):
        raise Conflict(f"owner: cannot be changed while node {node.uuid} is active ({rule})")


def hidden(owner: str | None, lessee: str | None) -> frozenset[str]:
    """The fields that the caller must not see of a node of this owner and lessee."""
    if not caller().restricted:
        return _NONE
    facts = of_node(owner, lessee)
    if _allows(f"{SEE_NODE}:filter_threshold", facts):
        return _NONE
    return frozenset(name for name in REDACTED if not _allows(f"{SEE_NODE}:{name}", facts))


def shows(rule: str) -> bool:
    """Whether a rule that nobody passes unless a file says so lets the caller see secrets."""
    policy = current_app.extensions[POLICY]
    return policy is not None and policy.allows(rule, caller(), NOTHING)


def target_properties(document: Any) -> Any:
    """`properties` of a volume target, as the caller may see them."""
    rule = "baremetal:volume:view_target_properties"
    if not caller().restricted or _allows(rule, NOTHING):
        return mask(document)
    return {"redacted_contents": redacted(rule)}


def _policy() -> Policy:
    policy: Policy = current_app.extensions[POLICY]
    return policy


def _allows(rule: str, facts: Facts) -> bool:
    policy, asking = _policy(), caller()
    if policy.allows(rule, asking, facts):
        return True
    other = ON_OWN_NODES.get(rule)
    own_nodes = runtime().settings.api.project_admin_can_manage_own_nodes
    return other is not None and own_nodes and policy.allows(other, asking, facts)


def _require(rules: Iterable[str], facts: Facts) -> None:
    for rule in rules:
        if not _allows(rule, facts):
            raise _forbidden(rule)


def _forbidden(rule: str) -> Forbidden:
    return Forbidden(f"Access was denied: {rule} is not allowed to you.")


def _concealed(kind: str, ident: str, rule: str) -> Forbidden | NotFound:
    return NotFound(kind, ident) if caller().project_id else _forbidden(rule)


def _facts_of_node(ident: Any) -> Facts:
    found = _NODES.find(ident) if isinstance(ident, str) else None
    return found[0] if found else NOTHING


def _meant(rule: str, document: Any) -> Collection[str]:
    """The rules that a request must satisfy, by what its body asks for."""
    if rule == "baremetal:node:update":
        return _changes(document, NODE_FIELDS, rule)
    if rule == "baremetal:runbook:update":
        return _changes(document, RUNBOOK_FIELDS, rule)
    if rule == PROVISIONING:
        steps = ("clean_steps", "service_steps")
        return (rule, *(f"{rule}:{name}" for name in steps if _value(document, name)))
    return (rule,)


def _changes(document: Any, fields: Mapping[str, str], otherwise: str) -> Collection[str]:
    """One rule for each field that a patch touches."""
    rules = {}
    for field, value in _patched(document):
        rules[fields.get(field, otherwise)] = True
        if field == "automated_clean" and str(value).lower() not in ("none", "true", "1"):
            rules["baremetal:node:disable_cleaning"] = True
    return tuple(rules) or (otherwise,)


def _patched(document: Any) -> list[tuple[str, Any]]:
    """(field, value) of what a patch touches; of no patch, nothing."""
    if not isinstance(document, list):
        return []
    return [
        (str(each.get("path")).strip("/").partition("/")[0], each.get("value"))
        for each in document
        if isinstance(each, dict)
    ]


def _value(document: Any, field: str) -> Any:
    """What a body, a patch or the query says of a field; None for nothing."""
    if isinstance(document, list):
        return dict(_patched(document)).get(field)
    if isinstance(document, dict) and field in document:
        return document[field]
    return request.args.get(field)


def _named(document: Any, *fields: str) -> Any:
    return next((value for field in fields if (value := _value(document, field))), None)


def _check_mentioned(field: str, value: Any) -> None:
    """
    The nodes that a field names are such that the caller may see; a parent must be of the caller's
    project, unless he may choose any. Raises Invalid.
    """
    for ident in value if isinstance(value, list) else [value]:
        if not isinstance(ident, str):
            continue
        facts = _facts_of_node(ident)
        fine = _allows(SEE_NODE, facts)
        if fine and field == "parent_node" and not _allows(NODE_FIELDS[field], facts):
            fine = facts.get("node.owner") == caller().project_id
        if not fine:
            raise Invalid(f"{field}: there is no node {ident}")


def _check_runbook(ident: str) -> None:
    """A runbook that the caller may use. Raises NotFound, Forbidden."""
    facts, public = _seen(_RUNBOOKS, ident)
    if not public:
        _require((USE_RUNBOOK,), facts)
