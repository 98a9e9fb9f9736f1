"""
Policy checks shared by several rules, and the type of a rule.

A check is an expression of oslo.policy; `rule:` refers to one of `app.api.policy.defaults.CALLERS`.
"""

from dataclasses import dataclass

BOTH = ("system", "project")
SYSTEM = ("system",)

SYSTEM_READ = "rule:system_reader"
SYSTEM_WORK = "rule:system_member"
SYSTEM_ADMIN = "rule:system_admin"
LIST = "rule:anybody_who_reads"
SEE = "rule:system_reader or rule:owner_reader or rule:lessee_reader or rule:service"
SEE_WITHIN = "rule:system_reader or rule:owner_reader or rule:service"
USE = "rule:system_member or rule:owner_member or rule:lessee_member or rule:service"
OPERATE = "rule:system_member or rule:owner_member or rule:lessee_manager or rule:service"
OWN = "rule:system_member or rule:owner_member or rule:service"
SET_UP = "rule:system_member or rule:owner_manager or rule:service"
MANAGE = "rule:system_member or rule:owner_manager or rule:lessee_manager or rule:service"
WIRE = "rule:system_admin or rule:owner_manager or rule:service"
ALLOCATION_READ = "rule:system_reader or (role:reader and project_id:%(allocation.owner)s)"
ALLOCATION_WORK = "rule:system_member or (role:member and project_id:%(allocation.owner)s)"
ROLLOUT_READ = (
    "rule:system_reader or ((role:reader or role:service) and project_id:%(rollout.owner)s)"
)
ROLLOUT_WORK = (
    "rule:system_member or rule:system_service"
    " or ((role:member or role:service) and project_id:%(rollout.owner)s)"
)
RUNBOOK_WORK = (
    "rule:system_member or (role:manager and project_id:%(runbook.owner)s) or role:service"
)
#: A lessee ends its own holds, while it leases the node: other holds on it are not its own.
HOLD_WORK = f"{OWN} or (role:member and project_id:%(hold.owner)s)"
WEBHOOK_WORK = "rule:system_admin or (role:manager and project_id:%(webhook.owner)s)"


@dataclass(frozen=True, slots=True)
class Rule:
    """A policy rule with its default."""

    name: str
    check: str  # default; a policy file may replace it
    guards: str  # description of the protected requests or fields
    scopes: tuple[str, ...] = BOTH  # token scopes accepted with `[oslo_policy]enforce_scope`
