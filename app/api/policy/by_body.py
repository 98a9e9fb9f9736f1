"""
Rules whose check depends on the body of a request: by its fields, and the nodes that it names.
"""

from collections.abc import Collection, Mapping
from typing import Any

from flask import request

from app.api.declarations import node_fields
from app.api.policy import defaults

#: Field of a node -> the rule for changing it, where that is not `baremetal:node:update`.
NODE_FIELDS: Mapping[str, str] = {name: rule.name for name, rule in node_fields.RULES.items()}
RUNBOOK_FIELDS: Mapping[str, str] = {
    "public": "baremetal:runbook:update:public",
    "owner": "baremetal:runbook:update:owner",
}
#: Texts of values that are false, and of the value of a removal.
_FALSE = ("none", "false", "0", "f", "no", "n", "off")
PROVISIONING = "baremetal:node:set_provision_state"
CREATE_HOLD = "baremetal:hold:create"
#: Rules that are also checked on the node that the body names.
ON_NAMED_NODE = {
    f"baremetal:{kind}:{verb}"
    for kind in ("port", "portgroup", "volume")
    for verb in ("create", "update")
} | {CREATE_HOLD}
#: Rule -> fields of the body that may only name nodes that the caller may see.
MENTIONS: Mapping[str, tuple[str, ...]] = {
    "baremetal:node:create": ("parent_node",),
    "baremetal:node:update": ("parent_node",),
    "baremetal:allocation:create": ("node", "candidate_nodes"),
    "baremetal:webhook:create": ("node_uuid",),
    "baremetal:webhook:update": ("node_uuid",),
}
#: All of them.
RULES = {
    "baremetal:node:update", "baremetal:runbook:update", PROVISIONING, *ON_NAMED_NODE, *MENTIONS,
}  # fmt: skip


def required(rule: str, document: object) -> Collection[str]:
    """Return the rules to check, by the fields in the body."""
    if rule == "baremetal:node:update":
        return _rules_of_patch(document, NODE_FIELDS, rule)
    if rule == "baremetal:runbook:update":
        return _rules_of_patch(document, RUNBOOK_FIELDS, rule)
    if rule == PROVISIONING:
        steps = ("clean_steps", "service_steps")
        return (rule, *(f"{rule}:{name}" for name in steps if value_of(document, name)))
    if rule == CREATE_HOLD:
        kind = f"{rule}:{value_of(document, 'kind')}"
        # the handler refuses other kinds
        return (rule, kind) if kind in defaults.RULES else (rule,)
    return (rule,)


def _rules_of_patch(document: object, fields: Mapping[str, str], otherwise: str) -> Collection[str]:
    """
    Return the rules for the fields that a patch changes.

    fields: field -> its rule. otherwise: rule of all other fields.
    """
    rules = {}
    for field, value in _patched(document):
        if field == "maintenance" and fields is NODE_FIELDS:  # as with PUT and DELETE
            clears = str(value).lower() in _FALSE
            rules[f"baremetal:node:{'clear' if clears else 'set'}_maintenance"] = True
            continue
        rules[fields.get(field, otherwise)] = True
        if field == "automated_clean" and str(value).lower() not in ("none", "true", "1"):
            rules["baremetal:node:disable_cleaning"] = True
    return tuple(rules) or (otherwise,)


def _patched(document: object) -> list[tuple[str, Any]]:
    """Return (field, value) of each change of a JSON patch; empty for other documents."""
    if not isinstance(document, list):
        return []
    return [
        (str(operation.get("path")).strip("/").partition("/")[0], operation.get("value"))
        for operation in document
        if isinstance(operation, dict)
    ]


def value_of(document: object, field: str) -> Any:
    """Return the value of a field in a body, a JSON patch or the query; None if it is missing."""
    if isinstance(document, list):
        return dict(_patched(document)).get(field)
    if isinstance(document, dict) and field in document:
        return document[field]
    return request.args.get(field)


def first_value(document: object, *fields: str) -> Any:
    """Return the first value of these fields that is not empty, if any."""
    return next((value for field in fields if (value := value_of(document, field))), None)
