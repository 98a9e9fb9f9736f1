"""
Rights of a caller: checks of its requests, scopes of its lists, fields hidden from it.

A route names one rule (`Routes.declare`); for some rules the body of the request determines which
rules are checked. Nothing is checked for callers who are not `restricted`.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cache
from typing import Any

from flask import request
from sqlalchemy import ColumnElement, false, or_

from app.api.policy import by_body
from app.api.policy.defaults import RULES
from app.api.policy.file import Policy
from app.api.policy.list_scope import EVERYTHING, ListScope
from app.api.policy.masking import redacted
from app.api.policy.targets import NOTHING, OWNED, SEE_NODE, Facts, Owned, of_node
from app.errors import Conflict, Forbidden, Invalid, NotFound
from app.identity.caller import Caller
from app.lifecycle.provision_states import State
from app.models import Node
from app.runtime import Runtime
from app.text.masking import mask

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
    OWN = "own"  # rows of the caller's project
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


@dataclass(frozen=True, slots=True)
class Access:
    """Rights of a caller. policy: None if all callers may do everything."""

    runtime: Runtime
    policy: Policy | None
    caller: Caller

    def check(
        self, rule: str, owned: Owned | None, ident: str | None, read: Callable[[], Any]
    ) -> ListScope:
        """
        Check the rules of the current request, and return the scope of its lists.

        rule: of the route. owned, ident: kind and identifier of the resource that the path names.
        read: decodes the body; called only for rules that depend on it.

        Raises Forbidden: the caller fails a rule.
        Raises NotFound: the caller is of a project and must not learn that the resource exists.
        Raises Invalid: the body names a node that the caller may not see.
        """
        facts, public = NOTHING, False
        if owned is not None:
            ident = ident or request.args.get("node") or request.args.get("node_uuid")
            facts, public = self._seen(owned, ident or "")
        if f"{rule}_all" in RULES:
            return self.list_scope(rule)
        document = read() if rule in by_body.RULES else None
        rules = by_body.required(rule, document)
        if owned is None and rule in by_body.ON_NAMED_NODE:
            facts = self._facts_of_node(by_body.first_value(document, "node_uuid", "node_ident"))
        if not (public and owned is not None and owned.sees in rules):
            self._require(rules, facts)
        new_node = (
            by_body.first_value(document, "node_uuid") if rule in by_body.ON_NAMED_NODE else None
        )
        if owned is not None and new_node:
            self._require(rules, self._facts_of_node(new_node))
        for field in by_body.MENTIONS.get(rule, ()):
            self._check_mentioned_nodes(field, by_body.value_of(document, field))
        if rule == by_body.PROVISIONING and (runbook := by_body.value_of(document, "runbook")):
            self._check_runbook(str(runbook))
        return EVERYTHING

    def _seen(self, owned: Owned, ident: str) -> tuple[Facts, bool]:
        """
        Return the facts about a resource, and whether it is public.

        Raises NotFound, Forbidden: the caller must not learn that the resource exists.
        """
        record = owned.find(self.runtime, ident)
        if record is None:
            if self.caller.project_id:
                raise NotFound(owned.kind, ident)
            return NOTHING, False  # the handler raises NotFound, if the caller passes the rule
        if not (record[1] or self._allows(owned.sees, record[0])):
            raise NotFound(owned.kind, ident) if self.caller.project_id else _forbidden(owned.sees)
        return record

    def list_scope(self, rule: str) -> ListScope:
        """
        Return the scope of a list with this rule: the caller's project, or all that there is.

        Raises Forbidden: the caller may list nothing.
        """
        if not self.caller.restricted or self._allows(f"{rule}_all", NOTHING):
            return EVERYTHING
        self._require((rule,), NOTHING)
        if self.caller.project_id is None:
            raise _forbidden(rule)
        return ListScope(self.caller.project_id)

    def extent(self, rule: str) -> Extent:
        """Return what the caller may see of the list with this rule."""
        if not self.caller.restricted:
            return Extent.ALL
        is_narrowed = f"{rule}_all" in RULES
        if self._allows(f"{rule}_all" if is_narrowed else rule, NOTHING):
            return Extent.ALL
        may_list = is_narrowed and self.caller.project_id and self._allows(rule, NOTHING)
        return Extent.OWN if may_list else Extent.NONE

    def denial(self, rule: str, document: object) -> Callable[[str | None, str | None], str | None]:
        """
        Return a function of owner and lessee of a node: the reason why the caller may not send it a
        request of this rule with this body, or None.

        Raises NotFound, Forbidden: the body names a runbook that the caller may not use.
        """
        if not self.caller.restricted:
            return lambda _owner, _lessee: None
        rules = by_body.required(rule, document)
        if rule == by_body.PROVISIONING and (runbook := by_body.value_of(document, "runbook")):
            self._check_runbook(str(runbook))

        @cache
        def reason(owner: str | None, lessee: str | None) -> str | None:
            facts = of_node(owner, lessee)
            denied_rule = next(
                (candidate for candidate in rules if not self._allows(candidate, facts)), None
            )
            return denied_rule and str(_forbidden(denied_rule))

        return reason

    def with_owner(self, kind: str, fields: Mapping[str, Any]) -> dict[str, Any]:
        """
        Add the owner to the fields of a new resource: the caller's project, unless any is allowed.

        Raises Invalid, Forbidden: the fields name another owner.
        """
        caller, ownership = self.caller, ANY_OWNER[kind]
        if not caller.restricted or self._passes(ownership.rule, NOTHING):
            return dict(fields)
        owner, public = fields.get("owner"), fields.get("public")
        if caller.project_id is None:
            if ownership.or_none or owner is not None or public:
                raise _forbidden(ownership.rule)
            return dict(fields)
        if owner not in (None, caller.project_id):
            raise ownership.error(f"owner: must be your project, which is {caller.project_id}")
        if public:
            raise ownership.error(
                f"public: a {kind} is made public only by callers who pass {ownership.rule}"
            )
        return {**fields, "owner": caller.project_id}

    def check_new_owner(self, node: Node) -> None:
        """
        Check that the caller may change the owner of a node.

        Raises Conflict: the node is active, and the caller fails the rule for that.
        """
        if node.provision_state != State.ACTIVE or not self.caller.restricted:
            return
        rule = "baremetal:node:update_owner_provisioned"
        facts = of_node(node.owner, node.lessee)
        if not self._allows(rule, facts):
            raise Conflict(f"owner: cannot be changed while node {node.uuid} is active ({rule})")

    def vif_project(self, ident: str) -> str | None:
        """Return the project whose VIFs the caller may attach, or None for any project."""
        rule = "baremetal:node:vif:attach_any"
        if not self.caller.restricted or self._allows(rule, self._facts_of_node(ident)):
            return None
        return self.caller.project_id or ""

    def hidden_fields(self, owner: str | None, lessee: str | None) -> frozenset[str]:
        """Return the fields that the caller must not see of a node of this owner and lessee."""
        if not self.caller.restricted:
            return _NONE
        facts = of_node(owner, lessee)
        if self._allows(f"{SEE_NODE}:filter_threshold", facts):
            return _NONE
        return frozenset(name for name in REDACTED if not self._allows(f"{SEE_NODE}:{name}", facts))

    def visibility(self) -> Mapping[str, ColumnElement[bool]]:
        """Return, for each field that the caller sees of some nodes only, their condition."""
        project, columns = self.caller.project_id, Node.__table__.c
        unseen = self.hidden_fields(None, None)
        if not unseen:
            return {}
        owned, leased = self.hidden_fields(project, None), self.hidden_fields(None, project)
        conditions = {}
        for name in unseen:
            rows: list[ColumnElement[bool]] = [false()]
            if project is not None and name not in owned:
                rows.append(columns.owner == project)
            if project is not None and name not in leased:
                rows.append(columns.lessee == project)
            conditions[name] = or_(*rows)
        return conditions

    def check_sort_key(self, scope: ListScope, field: str) -> None:
        """
        Check that the caller sees a field of all nodes of a list: their order discloses its values.

        Raises Forbidden.
        """
        if scope.is_narrow and field in self.hidden_fields(None, self.caller.project_id):
            raise Forbidden(
                f"sort_key: {field} is hidden from you in nodes that your project only leases"
                f" ({SEE_NODE}:{field})."
            )

    def shows_secrets(self, rule: str) -> bool:
        """Return whether the caller sees secrets: passes one of the rules in `SECRETS`."""
        return self.policy is not None and self.policy.allows(rule, self.caller, NOTHING)

    def target_properties(self, document: object) -> Any:
        """Mask the secrets in `properties` of a volume target, or redact them by the policy."""
        rule = "baremetal:volume:view_target_properties"
        if not self.caller.restricted or self._allows(rule, NOTHING):
            return mask(document)
        return {"redacted_contents": redacted(rule)}

    def passed(self, rules: Iterable[str], node: str | None = None) -> list[str]:
        """
        Return the rules that the caller passes: for a node, or else for resources of its project.

        Raises NotFound, Forbidden: the caller must not learn that the node exists.
        """
        if not self.caller.restricted:
            return list(rules)
        if node is None:
            names = {name for owned in OWNED.values() for name in owned.facts}
            project = self.caller.project_id
            facts = {name: project for name in sorted(names) if project is not None}
        else:
            facts = dict(self._seen(_NODES, node)[0])
        return [rule for rule in rules if self._allows(rule, facts)]

    def _allows(self, rule: str, facts: Facts) -> bool:
        if self._passes(rule, facts):
            return True
        project_rule = ON_OWN_NODES.get(rule)
        own_nodes = self.runtime.settings.api.project_admin_can_manage_own_nodes
        return project_rule is not None and own_nodes and self._passes(project_rule, facts)

    def _passes(self, rule: str, facts: Facts) -> bool:
        return self.policy is None or self.policy.allows(rule, self.caller, facts)

    def _require(self, rules: Iterable[str], facts: Facts) -> None:
        for rule in rules:
            if not self._allows(rule, facts):
                raise _forbidden(rule)

    def _facts_of_node(self, ident: object) -> Facts:
        record = _NODES.find(self.runtime, ident) if isinstance(ident, str) else None
        return record[0] if record else NOTHING

    def _check_mentioned_nodes(self, field: str, value: object) -> None:
        """
        Check that the caller may see the nodes that a field names.

        A parent node must belong to the caller's project, unless the caller may change that field.

        Raises Invalid.
        """
        for ident in value if isinstance(value, list) else [value]:
            if not isinstance(ident, str):
                continue
            facts = self._facts_of_node(ident)
            is_visible = self._allows(SEE_NODE, facts)
            changes_parent = self._allows(by_body.NODE_FIELDS.get(field, SEE_NODE), facts)
            if is_visible and field == "parent_node" and not changes_parent:
                is_visible = facts.get("node.owner") == self.caller.project_id
            if not is_visible:
                raise Invalid(f"{field}: there is no node {ident}")

    def _check_runbook(self, ident: str) -> None:
        """
        Check that the caller may use a runbook.

        Raises NotFound, Forbidden.
        """
        facts, public = self._seen(_RUNBOOKS, ident)
        if not public:
            self._require((USE_RUNBOOK,), facts)


def _forbidden(rule: str) -> Forbidden:
    return Forbidden(f"Access was denied: {rule} is not allowed to you.")
