"""
Policy rules, one table. Names and defaults are Ironic's.

A check is an expression of oslo.policy. `rule:` refers to another rule, so that a file that
replaces one of `CALLERS` changes all rules that refer to it; `%(node.owner)s` is an attribute of the
request's target, and a check that needs a missing attribute fails.
"""

# ruff: noqa: E501 - a table: a rule, a line

from collections.abc import Mapping

from app.api.declarations import node_fields
from app.api.declarations.policy_checks import (
    ALLOCATION_READ,
    ALLOCATION_WORK,
    HOLD_WORK,
    LIST,
    MANAGE,
    OPERATE,
    OWN,
    ROLLOUT_READ,
    ROLLOUT_WORK,
    RUNBOOK_WORK,
    SEE,
    SEE_WITHIN,
    SET_UP,
    SYSTEM,
    SYSTEM_ADMIN,
    SYSTEM_READ,
    SYSTEM_WORK,
    USE,
    WEBHOOK_WORK,
    WIRE,
    Rule,
)

#: Roles of callers, which other rules refer to.
CALLERS = (
    Rule("system_admin", "role:admin and system_scope:all", "Administers the whole system"),
    Rule("system_member", "(role:member and system_scope:all) or rule:service_role", "Uses the whole system"),
    Rule("system_reader", "(role:reader and system_scope:all) or (role:service and system_scope:all) or rule:service_role", "Reads the whole system"),
    Rule("owner_manager", "role:manager and project_id:%(node.owner)s", "Manages the project that owns the node"),
    Rule("owner_member", "role:member and project_id:%(node.owner)s", "Is a member of the project that owns the node"),
    Rule("owner_reader", "role:reader and project_id:%(node.owner)s", "Reads the resources of the project that owns the node"),
    Rule("lessee_manager", "role:manager and project_id:%(node.lessee)s", "Manages the project that leases the node"),
    Rule("lessee_member", "role:member and project_id:%(node.lessee)s", "Is a member of the project that leases the node"),
    Rule("lessee_reader", "role:reader and project_id:%(node.lessee)s", "Reads the resources of the project that leases the node"),
    Rule("system_service", "role:service and system_scope:all", "Another service, such as Nova"),
    Rule("service", "rule:system_service or (role:service and project_id:%(node.owner)s) or rule:service_role", "Another service, of the system or of the owner's project"),
    Rule("service_role", "role:service and project_name:%(config.service_project_name)s", "A service of `[DEFAULT]rbac_service_project_name`, with `[DEFAULT]rbac_service_role_elevated_access`"),
    Rule("anybody_who_reads", "role:reader or role:service", "Has any role with read access"),
    Rule("public_api", "is_public_api:True", "For older policy files; no caller passes"),
    Rule("admin_api", "role:admin or role:administrator", "For older policy files"),
    Rule("is_member", "(project_domain_id:default or project_domain_id:None) and (project_name:demo or project_name:baremetal)", "For older policy files"),
    Rule("is_observer", "rule:is_member and (role:observer or role:baremetal_observer)", "For older policy files"),
    Rule("is_admin", "rule:admin_api or (rule:is_member and role:baremetal_admin)", "For older policy files"),
    Rule("is_node_owner", "project_id:%(node.owner)s", "For older policy files"),
    Rule("is_node_lessee", "project_id:%(node.lessee)s", "For older policy files"),
    Rule("is_allocation_owner", "project_id:%(allocation.owner)s", "For older policy files"),
)  # fmt: skip

#: Rules that show secrets; by default no caller passes, and secrets are masked.
SECRETS = (
    Rule("show_password", "!", "Show secrets in `driver_info` and `driver_internal_info`"),
    Rule("show_instance_secrets", "!", "Show secrets in `instance_info`"),
)  # fmt: skip

_NODE = "baremetal:node"
NODE = (
    Rule(f"{_NODE}:create", "rule:system_admin or rule:system_service", "Enroll nodes of any owner, or of none"),
    Rule(f"{_NODE}:create:self_owned_node", "role:admin or role:service", "Enroll nodes that the caller's project owns, with `[api]project_admin_can_manage_own_nodes`"),
    Rule(f"{_NODE}:list", LIST, "List the nodes that the caller's project owns or leases"),
    Rule(f"{_NODE}:list_all", SYSTEM_READ, "List every node"),
    Rule(f"{_NODE}:get", SEE, "Show a node"),
    Rule(f"{_NODE}:get:filter_threshold", SYSTEM_READ, "See all fields of a node; otherwise the next four rules decide"),
    Rule(f"{_NODE}:get:last_error", SEE_WITHIN, "See `last_error`"),
    Rule(f"{_NODE}:get:reservation", SEE_WITHIN, "See `reservation`"),
    Rule(f"{_NODE}:get:driver_internal_info", SEE_WITHIN, "See `driver_internal_info`"),
    Rule(f"{_NODE}:get:driver_info", SEE_WITHIN, "See `driver_info`"),
    Rule(f"{_NODE}:update", USE, "Change fields that have no rule of their own"),
    *dict.fromkeys(node_fields.RULES.values()),
    Rule(f"{_NODE}:update_owner_provisioned", SYSTEM_ADMIN, "Change `owner` of an active node", SYSTEM),
    Rule(f"{_NODE}:disable_cleaning", SYSTEM_ADMIN, "Set `automated_clean` to false", SYSTEM),
    Rule(f"{_NODE}:delete", SYSTEM_ADMIN, "Delete a node"),
    Rule(f"{_NODE}:delete:self_owned_node", "role:admin and project_id:%(node.owner)s", "Delete a node of the caller's project, with `[api]project_admin_can_manage_own_nodes`"),
    Rule(f"{_NODE}:validate", OPERATE, "Check a node's settings"),
    Rule(f"{_NODE}:set_maintenance", OPERATE, "Put a node into maintenance"),
    Rule(f"{_NODE}:clear_maintenance", OPERATE, "Take a node out of maintenance"),
    Rule(f"{_NODE}:get_states", SEE, "Show the states of a node"),
    Rule(f"{_NODE}:set_power_state", USE, "Change the power of a node"),
    Rule(f"{_NODE}:set_boot_mode", USE, "Change the boot mode of a node"),
    Rule(f"{_NODE}:set_secure_boot", USE, "Turn secure boot on or off"),
    Rule(f"{_NODE}:set_provision_state", OPERATE, "Request a change of the provision state"),
    Rule(f"{_NODE}:set_provision_state:clean_steps", OPERATE, "Request clean steps by name"),
    Rule(f"{_NODE}:set_provision_state:service_steps", OPERATE, "Request service steps by name"),
    Rule(f"{_NODE}:set_raid_state", OWN, "Set the target RAID configuration"),
    Rule(f"{_NODE}:get_console", OWN, "Show the console's address"),
    Rule(f"{_NODE}:set_console_state", OWN, "Start or stop the console"),
    Rule(f"{_NODE}:console:open", OWN, "Watch the console; show whether it is connected"),
    Rule(f"{_NODE}:console:write", OWN, "Type at the console, with the rule before this one"),
    Rule(f"{_NODE}:console:history", OWN, "Read what the console has shown, also to earlier users of the node"),
    Rule(f"{_NODE}:get_boot_device", SET_UP, "Show the boot device"),
    Rule(f"{_NODE}:set_boot_device", SET_UP, "Change the boot device"),
    Rule(f"{_NODE}:get_indicator_state", SEE, "Show indicators"),
    Rule(f"{_NODE}:set_indicator_state", OWN, "Change indicators"),
    Rule(f"{_NODE}:get_sensors", SEE, "Read the sensors"),
    Rule(f"{_NODE}:get_event_subscription", SEE, "Show whether the BMC sends events"),
    Rule(f"{_NODE}:inject_nmi", SET_UP, "Interrupt the machine (NMI)"),
    Rule(f"{_NODE}:vif:list", SEE, "List attached network interfaces"),
    Rule(f"{_NODE}:vif:attach", OPERATE, "Attach a network interface"),
    Rule(f"{_NODE}:vif:attach_any", "rule:system_member or rule:service", "Attach a port of Neutron, or a network of the service, of any project; otherwise it, or its network, must be of the caller's"),
    Rule(f"{_NODE}:vif:detach", OPERATE, "Detach a network interface"),
    Rule(f"{_NODE}:switch_ports:get", SYSTEM_READ, "Compare the switch ports of a node with the orders for them"),
    Rule(f"{_NODE}:switch_ports:restore", SYSTEM_WORK, "Give the switch ports of a node the last orders for them again"),
    Rule(f"{_NODE}:vmedia:get", SEE, "List virtual media"),
    Rule(f"{_NODE}:vmedia:attach", USE, "Attach virtual media"),
    Rule(f"{_NODE}:vmedia:detach", USE, "Detach virtual media"),
    Rule(f"{_NODE}:traits:list", SEE, "List traits"),
    Rule(f"{_NODE}:traits:set", SET_UP, "Set traits"),
    Rule(f"{_NODE}:traits:delete", SET_UP, "Remove traits"),
    Rule(f"{_NODE}:bios:get", SEE, "Show BIOS settings"),
    Rule(f"{_NODE}:firmware:get", SEE, "Show firmware versions"),
    Rule(f"{_NODE}:history:get", SEE_WITHIN, "Show the history and the operations of a node"),
    Rule("baremetal:operation:list", LIST, "List operations of nodes that the caller's project owns"),
    Rule("baremetal:operation:list_all", SYSTEM_READ, "List operations of every node"),
    Rule("baremetal:event:list", LIST, "List change events of the caller's project: of its nodes, allocations and runbooks"),
    Rule("baremetal:event:list_all", SYSTEM_READ, "List all change events; those of resources only with the rule for listing them"),
    Rule(f"{_NODE}:sanitation:get", SEE_WITHIN, "Show the sanitation reports of a node; those of a deleted node: system readers"),
    Rule(f"{_NODE}:inventory:get", SEE_WITHIN, "Show the inventory"),
    Rule(f"{_NODE}:refresh", OPERATE, "Read the recorded facts of a machine again by its BMC"),
    Rule(f"{_NODE}:refresh:get", SEE_WITHIN, "Show what the last refresh of a node has found"),
    Rule(f"{_NODE}:benchmarks:get", SEE_WITHIN, "Show the numbers that steps have measured on a node"),
    Rule(f"{_NODE}:compliance:get", SEE_WITHIN, "Show how a node differs from the baselines that are for it"),
    Rule(f"{_NODE}:agent_logs:get", SYSTEM_ADMIN, "Download kept logs of a node's agents, which may contain secrets"),
    Rule(f"{_NODE}:record_bmc", SYSTEM_ADMIN, "Record documents of a node's BMC, or what operations exchange with it", SYSTEM),
    Rule(f"{_NODE}:vendor_passthru", SYSTEM_ADMIN, "Call vendor functions of a node"),
    Rule(f"{_NODE}:ipa_heartbeat", "", "Send heartbeats: agents, without a token"),
)  # fmt: skip

HOLD = (
    Rule("baremetal:hold:get", SEE, "Show a hold"),
    Rule("baremetal:hold:list", LIST, "List holds on nodes that the caller's project owns or leases"),
    Rule("baremetal:hold:list_all", SYSTEM_READ, "List holds on every node"),
    Rule("baremetal:hold:create", OPERATE, "Set a hold; one of the next rules decides, too"),
    Rule("baremetal:hold:create:scheduling", OWN, "Set a hold of the kind `scheduling`"),
    Rule("baremetal:hold:create:hardware", OWN, "Set a hold of the kind `hardware`"),
    Rule("baremetal:hold:create:investigation", OPERATE, "Set a hold of the kind `investigation`"),
    Rule("baremetal:hold:update", HOLD_WORK, "Change the reason or the expiry of a hold"),
    Rule("baremetal:hold:delete", HOLD_WORK, "End a hold"),
)  # fmt: skip

NETWORK = (
    Rule("baremetal:port:get", SEE, "Show a port"),
    Rule("baremetal:port:list", LIST, "List ports of nodes of the caller's project"),
    Rule("baremetal:port:list_all", SYSTEM_READ, "List every port"),
    Rule("baremetal:port:create", WIRE, "Create a port"),
    Rule("baremetal:port:update", SET_UP, "Change a port"),
    Rule("baremetal:port:delete", WIRE, "Delete a port"),
    Rule("baremetal:portgroup:get", SEE, "Show a port group"),
    Rule("baremetal:portgroup:list", LIST, "List port groups of nodes of the caller's project"),
    Rule("baremetal:portgroup:list_all", SYSTEM_READ, "List every port group"),
    Rule("baremetal:portgroup:create", WIRE, "Create a port group"),
    Rule("baremetal:portgroup:update", SET_UP, "Change a port group"),
    Rule("baremetal:portgroup:delete", WIRE, "Delete a port group"),
)  # fmt: skip

VLAN = (
    Rule("baremetal:network:get", "rule:system_reader or (role:reader and project_id:%(network.owner)s) or role:service", "Show a network that is not public"),
    Rule("baremetal:network:list", LIST, "List public networks and those of the caller's project"),
    Rule("baremetal:network:list_all", SYSTEM_READ, "List every network"),
    Rule("baremetal:network:create", SYSTEM_ADMIN, "Create a network"),
    Rule("baremetal:network:update", SYSTEM_ADMIN, "Change a network"),
    Rule("baremetal:network:delete", SYSTEM_ADMIN, "Delete a network"),
    Rule("baremetal:switch:get", SYSTEM_READ, "List and show switches", SYSTEM),
    Rule("baremetal:switch:create", SYSTEM_ADMIN, "Create a switch", SYSTEM),
    Rule("baremetal:switch:update", SYSTEM_ADMIN, "Change a switch", SYSTEM),
    Rule("baremetal:switch:delete", SYSTEM_ADMIN, "Delete a switch", SYSTEM),
)  # fmt: skip

BASELINE = (
    Rule("baremetal:baseline:get", SYSTEM_READ, "List and show baselines, and the nodes that differ from them", SYSTEM),
    Rule("baremetal:baseline:create", SYSTEM_ADMIN, "Create a baseline", SYSTEM),
    Rule("baremetal:baseline:update", SYSTEM_ADMIN, "Change a baseline", SYSTEM),
    Rule("baremetal:baseline:delete", SYSTEM_ADMIN, "Delete a baseline", SYSTEM),
)  # fmt: skip

VOLUME = (
    Rule("baremetal:volume:get", SEE, "Show a volume connector or target"),
    Rule("baremetal:volume:list", LIST, "List volume connectors and targets of nodes of the caller's project"),
    Rule("baremetal:volume:list_all", SYSTEM_READ, "List every volume connector and target"),
    Rule("baremetal:volume:create", MANAGE, "Create a volume connector or target"),
    Rule("baremetal:volume:update", OPERATE, "Change a volume connector or target"),
    Rule("baremetal:volume:delete", MANAGE, "Delete a volume connector or target"),
    Rule("baremetal:volume:view_target_properties", "rule:system_reader or role:admin", "See `properties` of a volume target"),
)  # fmt: skip

ALLOCATION = (
    Rule("baremetal:allocation:get", ALLOCATION_READ, "Show an allocation"),
    Rule("baremetal:allocation:list", LIST, "List allocations of the caller's project"),
    Rule("baremetal:allocation:list_all", SYSTEM_READ, "List every allocation"),
    Rule("baremetal:allocation:create", "rule:system_member or role:member", "Create an allocation that the caller's project owns"),
    Rule("baremetal:allocation:create_restricted", SYSTEM_WORK, "Create an allocation of any owner, or of none"),
    Rule("baremetal:allocation:update", ALLOCATION_WORK, "Change an allocation"),
    Rule("baremetal:allocation:delete", ALLOCATION_WORK, "Delete an allocation"),
)  # fmt: skip

QUOTA = (
    Rule("baremetal:quota:get", "rule:system_reader or (role:reader and project_id:%(quota.project)s)", "Show the quota of a project, and how many nodes it leases"),
    Rule("baremetal:quota:list", LIST, "List the quota of the caller's project"),
    Rule("baremetal:quota:list_all", SYSTEM_READ, "List every quota"),
    Rule("baremetal:quota:create", SYSTEM_ADMIN, "Limit the nodes that a project may lease", SYSTEM),
    Rule("baremetal:quota:update", SYSTEM_ADMIN, "Change the limit of a project", SYSTEM),
    Rule("baremetal:quota:delete", SYSTEM_ADMIN, "Remove the limit of a project", SYSTEM),
)  # fmt: skip

RUNBOOK = (
    Rule("baremetal:runbook:get", "rule:system_reader or (role:reader and project_id:%(runbook.owner)s) or role:service", "Show a runbook that is not public"),
    Rule("baremetal:runbook:list", LIST, "List public runbooks and those of the caller's project"),
    Rule("baremetal:runbook:list_all", SYSTEM_READ, "List every runbook"),
    Rule("baremetal:runbook:create", "rule:system_member or role:manager or role:service", "Create a runbook that the caller's project owns"),
    Rule("baremetal:runbook:update", RUNBOOK_WORK, "Change a runbook"),
    Rule("baremetal:runbook:update:public", SYSTEM_WORK, "Change `public` of a runbook"),
    Rule("baremetal:runbook:update:owner", SYSTEM_WORK, "Change `owner` of a runbook; create one of any owner, or public"),
    Rule("baremetal:runbook:delete", RUNBOOK_WORK, "Delete a runbook"),
    Rule("baremetal:runbook:use", RUNBOOK_WORK, "Run a runbook that is not public"),
)  # fmt: skip

WEBHOOK = (
    Rule("baremetal:webhook:get", "rule:system_reader or (role:reader and project_id:%(webhook.owner)s)", "Show a webhook and its failures"),
    Rule("baremetal:webhook:list", LIST, "List webhooks of the caller's project"),
    Rule("baremetal:webhook:list_all", SYSTEM_READ, "List every webhook"),
    Rule("baremetal:webhook:create", "rule:system_admin or (role:manager and not system_scope:all)", "Create a webhook that the caller's project owns"),
    Rule("baremetal:webhook:create_restricted", SYSTEM_ADMIN, "Create a webhook of any owner, or of none: it gets the events of all nodes"),
    Rule("baremetal:webhook:update", WEBHOOK_WORK, "Change a webhook, replay its events"),
    Rule("baremetal:webhook:delete", WEBHOOK_WORK, "Delete a webhook"),
)  # fmt: skip

ROLLOUT = (
    Rule("baremetal:rollout:get", ROLLOUT_READ, "Show a rollout and its nodes"),
    Rule("baremetal:rollout:list", LIST, "List the rollouts of the caller's project"),
    Rule("baremetal:rollout:list_all", SYSTEM_READ, "List every rollout"),
    Rule("baremetal:rollout:create", "rule:system_member or role:member or role:service", "Create a rollout; the rules of its target decide for each node"),
    Rule("baremetal:rollout:update", ROLLOUT_WORK, "Pause, resume or abort a rollout"),
    Rule("baremetal:rollout:delete", ROLLOUT_WORK, "Delete a rollout that has ended"),
)  # fmt: skip

SYSTEM_WIDE = (
    Rule("baremetal:chassis:get", SYSTEM_READ, "List and show chassis", SYSTEM),
    Rule("baremetal:chassis:create", SYSTEM_ADMIN, "Create a chassis", SYSTEM),
    Rule("baremetal:chassis:update", SYSTEM_WORK, "Change a chassis", SYSTEM),
    Rule("baremetal:chassis:delete", SYSTEM_ADMIN, "Delete a chassis", SYSTEM),
    Rule("baremetal:driver:get", SYSTEM_READ, "List and show drivers", SYSTEM),
    Rule("baremetal:driver:get_properties", SYSTEM_READ, "Show the properties of a driver", SYSTEM),
    Rule("baremetal:driver:get_raid_logical_disk_properties", SYSTEM_READ, "Show the RAID properties of a driver", SYSTEM),
    Rule("baremetal:driver:vendor_passthru", SYSTEM_ADMIN, "Call vendor functions of a driver", SYSTEM),
    Rule("baremetal:driver:ipa_lookup", "", "Look up a node: agents, without a token"),
    Rule("baremetal:driver:ipa_continue_inspection", "", "Send inspection data: agents, without a token"),
    Rule("baremetal:conductor:get", SYSTEM_READ, "List and show conductors"),
    Rule("baremetal:conductor:drain", SYSTEM_ADMIN, "Drain a conductor, or give it new work again", SYSTEM),
    Rule("baremetal:service:get", SYSTEM_READ, "Show the state of the service: ring, load, queues, health"),
    Rule("baremetal:shards:get", SYSTEM_READ, "List shards"),
    Rule("baremetal:audit:get", SYSTEM_READ, "Read the audit records", SYSTEM),
    Rule("baremetal:events:post", SYSTEM_ADMIN, "Report events", SYSTEM),
    Rule("baremetal:deploy_template:get", SYSTEM_READ, "List and show deploy templates"),
    Rule("baremetal:deploy_template:create", SYSTEM_ADMIN, "Create a deploy template"),
    Rule("baremetal:deploy_template:update", SYSTEM_ADMIN, "Change a deploy template"),
    Rule("baremetal:deploy_template:delete", SYSTEM_ADMIN, "Delete a deploy template"),
    Rule("baremetal:inspection_rule:get", SYSTEM_READ, "Show an inspection rule"),
    Rule("baremetal:inspection_rule:list_all", SYSTEM_READ, "List inspection rules"),
    Rule("baremetal:inspection_rule:create", SYSTEM_ADMIN, "Create an inspection rule"),
    Rule("baremetal:inspection_rule:update", SYSTEM_ADMIN, "Change an inspection rule"),
    Rule("baremetal:inspection_rule:delete", SYSTEM_ADMIN, "Delete an inspection rule"),
)  # fmt: skip

#: Subject -> its rules, in the order of the documentation.
SECTIONS: Mapping[str, tuple[Rule, ...]] = {
    "Callers": CALLERS,
    "Secrets": SECRETS,
    "Nodes": NODE,
    "Holds": HOLD,
    "Ports and port groups": NETWORK,
    "Networks and switches": VLAN,
    "Baselines": BASELINE,
    "Volumes": VOLUME,
    "Allocations": ALLOCATION,
    "Quotas": QUOTA,
    "Runbooks": RUNBOOK,
    "Webhooks": WEBHOOK,
    "Rollouts": ROLLOUT,
    "The whole system": SYSTEM_WIDE,
}
RULES: Mapping[str, Rule] = {rule.name: rule for rules in SECTIONS.values() for rule in rules}
