"""
The policy: who may do what, one table. Names and defaults are Ironic's.

A check is written in the language of oslo.policy. `rule:` names another rule, so that a file that
replaces one of `PEOPLE` replaces it wherever it is used; `%(node.owner)s` is a fact about what the
request is about, and a check that needs a fact which is not there does not hold.
"""

# ruff: noqa: E501 - a table: a rule, a line

from collections.abc import Mapping
from dataclasses import dataclass

BOTH = ("system", "project")
SYSTEM = ("system",)


@dataclass(frozen=True, slots=True)
class Rule:
    """
    check: who passes, if no file says otherwise. guards: what one needs it for. scopes: the kinds
    of tokens that can pass at all.
    """

    name: str
    check: str
    guards: str
    scopes: tuple[str, ...] = BOTH


#: Kinds of people, which other rules name.
PEOPLE = (
    Rule("system_admin", "role:admin and system_scope:all", "Administers the whole system"),
    Rule("system_member", "(role:member and system_scope:all) or rule:service_role", "Works with the whole system"),
    Rule("system_reader", "(role:reader and system_scope:all) or (role:service and system_scope:all) or rule:service_role", "Sees the whole system"),
    Rule("owner_manager", "role:manager and project_id:%(node.owner)s", "Manages the project that owns the node"),
    Rule("owner_member", "role:member and project_id:%(node.owner)s", "Works in the project that owns the node"),
    Rule("owner_reader", "role:reader and project_id:%(node.owner)s", "Sees what the project that owns the node has"),
    Rule("lessee_manager", "role:manager and project_id:%(node.lessee)s", "Manages the project that leases the node"),
    Rule("lessee_member", "role:member and project_id:%(node.lessee)s", "Works in the project that leases the node"),
    Rule("lessee_reader", "role:reader and project_id:%(node.lessee)s", "Sees what the project that leases the node has"),
    Rule("system_service", "role:service and system_scope:all", "Another service, such as Nova"),
    Rule("service", "rule:system_service or (role:service and project_id:%(node.owner)s) or rule:service_role", "Another service, of the system or of the owner's project"),
    Rule("service_role", "role:service and project_name:%(config.service_project_name)s", "A service of `[DEFAULT]rbac_service_project_name`, with `[DEFAULT]rbac_service_role_elevated_access`"),
    Rule("anybody_who_reads", "role:reader or role:service", "Has any role that reads"),
    Rule("public_api", "is_public_api:True", "Older policy files name it; nobody passes"),
    Rule("admin_api", "role:admin or role:administrator", "Older policy files name it"),
    Rule("is_member", "(project_domain_id:default or project_domain_id:None) and (project_name:demo or project_name:baremetal)", "Older policy files name it"),
    Rule("is_observer", "rule:is_member and (role:observer or role:baremetal_observer)", "Older policy files name it"),
    Rule("is_admin", "rule:admin_api or (rule:is_member and role:baremetal_admin)", "Older policy files name it"),
    Rule("is_node_owner", "project_id:%(node.owner)s", "Older policy files name it"),
    Rule("is_node_lessee", "project_id:%(node.lessee)s", "Older policy files name it"),
    Rule("is_allocation_owner", "project_id:%(allocation.owner)s", "Older policy files name it"),
)  # fmt: skip

_SYSTEM_READ = "rule:system_reader"
_SYSTEM_WORK = "rule:system_member"
_SYSTEM_ADMIN = "rule:system_admin"
_LIST = "rule:anybody_who_reads"
_SEE = "rule:system_reader or rule:owner_reader or rule:lessee_reader or rule:service"
_SEE_WITHIN = "rule:system_reader or rule:owner_reader or rule:service"
_USE = "rule:system_member or rule:owner_member or rule:lessee_member or rule:service"
_OPERATE = "rule:system_member or rule:owner_member or rule:lessee_manager or rule:service"
_OWN = "rule:system_member or rule:owner_member or rule:service"
_SET_UP = "rule:system_member or rule:owner_manager or rule:service"
_MANAGE = "rule:system_member or rule:owner_manager or rule:lessee_manager or rule:service"
_WIRE = "rule:system_admin or rule:owner_manager or rule:service"
_ALLOCATION_READ = "rule:system_reader or (role:reader and project_id:%(allocation.owner)s)"
_ALLOCATION_WORK = "rule:system_member or (role:member and project_id:%(allocation.owner)s)"
_RUNBOOK_WORK = (
    "rule:system_member or (role:manager and project_id:%(runbook.owner)s) or role:service"
)

#: What shows secrets that are masked otherwise.
SECRETS = (
    Rule("show_password", "!", "Show secrets in `driver_info` and `driver_internal_info`"),
    Rule("show_instance_secrets", "!", "Show secrets in `instance_info`"),
)  # fmt: skip

_NODE = "baremetal:node"
NODE = (
    Rule(f"{_NODE}:create", "rule:system_admin or rule:system_service", "Enroll nodes of any owner, or of none"),
    Rule(f"{_NODE}:create:self_owned_node", "role:admin or role:service", "Enroll nodes that the own project owns, with `[api]project_admin_can_manage_own_nodes`"),
    Rule(f"{_NODE}:list", _LIST, "List the nodes that the own project owns or leases"),
    Rule(f"{_NODE}:list_all", _SYSTEM_READ, "List every node"),
    Rule(f"{_NODE}:get", _SEE, "See that a node is there, and show it"),
    Rule(f"{_NODE}:get:filter_threshold", _SYSTEM_READ, "See all of a node; else the next four decide"),
    Rule(f"{_NODE}:get:last_error", _SEE_WITHIN, "See `last_error`"),
    Rule(f"{_NODE}:get:reservation", _SEE_WITHIN, "See `reservation`"),
    Rule(f"{_NODE}:get:driver_internal_info", _SEE_WITHIN, "See `driver_internal_info`"),
    Rule(f"{_NODE}:get:driver_info", _SEE_WITHIN, "See `driver_info`"),
    Rule(f"{_NODE}:update", _USE, "Change fields that have no rule of their own"),
    Rule(f"{_NODE}:update_extra", _USE, "Change `extra`"),
    Rule(f"{_NODE}:update_instance_info", _OPERATE, "Change `instance_info` and `instance_name`"),
    Rule(f"{_NODE}:update:driver_info", _OWN, "Change `driver_info`"),
    Rule(f"{_NODE}:update:properties", _OWN, "Change `properties`"),
    Rule(f"{_NODE}:update:instance_uuid", _OWN, "Change `instance_uuid`"),
    Rule(f"{_NODE}:update:lessee", _OWN, "Change `lessee`"),
    Rule(f"{_NODE}:update:network_data", _OWN, "Change `network_data`"),
    Rule(f"{_NODE}:update:name", _OWN, "Change `name`"),
    Rule(f"{_NODE}:update:retired", _OWN, "Change `retired` and `retired_reason`"),
    Rule(f"{_NODE}:update:driver_interfaces", _SET_UP, "Change `driver` and interfaces"),
    Rule(f"{_NODE}:update:owner", _SYSTEM_WORK, "Change `owner`"),
    Rule(f"{_NODE}:update_owner_provisioned", _SYSTEM_ADMIN, "Change `owner` of an active node", SYSTEM),
    Rule(f"{_NODE}:update:conductor_group", _SYSTEM_WORK, "Change `conductor_group`"),
    Rule(f"{_NODE}:update:parent_node", _SYSTEM_WORK, "Change `parent_node`"),
    Rule(f"{_NODE}:update:chassis_uuid", _SYSTEM_ADMIN, "Change `chassis_uuid`"),
    Rule(f"{_NODE}:update:shard", _SYSTEM_ADMIN, "Change `shard`"),
    Rule(f"{_NODE}:update:disable_power_off", _SYSTEM_ADMIN, "Change `disable_power_off`"),
    Rule(f"{_NODE}:disable_cleaning", _SYSTEM_ADMIN, "Set `automated_clean` to false", SYSTEM),
    Rule(f"{_NODE}:delete", _SYSTEM_ADMIN, "Forget a node"),
    Rule(f"{_NODE}:delete:self_owned_node", "role:admin and project_id:%(node.owner)s", "Forget a node of the own project, with `[api]project_admin_can_manage_own_nodes`"),
    Rule(f"{_NODE}:validate", _OPERATE, "Check a node's settings"),
    Rule(f"{_NODE}:set_maintenance", _OPERATE, "Put a node into maintenance"),
    Rule(f"{_NODE}:clear_maintenance", _OPERATE, "Take a node out of maintenance"),
    Rule(f"{_NODE}:get_states", _SEE, "Show the states of a node"),
    Rule(f"{_NODE}:set_power_state", _USE, "Change the power of a node"),
    Rule(f"{_NODE}:set_boot_mode", _USE, "Change the boot mode of a node"),
    Rule(f"{_NODE}:set_secure_boot", _USE, "Turn secure boot on or off"),
    Rule(f"{_NODE}:set_provision_state", _OPERATE, "Ask for a change of the provision state"),
    Rule(f"{_NODE}:set_provision_state:clean_steps", _OPERATE, "Ask for clean steps by name, too"),
    Rule(f"{_NODE}:set_provision_state:service_steps", _OPERATE, "Ask for service steps by name, too"),
    Rule(f"{_NODE}:set_raid_state", _OWN, "Set the RAID configuration that is wanted"),
    Rule(f"{_NODE}:get_console", _OWN, "Show how to reach the console"),
    Rule(f"{_NODE}:set_console_state", _OWN, "Start or stop the console"),
    Rule(f"{_NODE}:get_boot_device", _SET_UP, "Show the boot device"),
    Rule(f"{_NODE}:set_boot_device", _SET_UP, "Change the boot device"),
    Rule(f"{_NODE}:get_indicator_state", _SEE, "Show indicators"),
    Rule(f"{_NODE}:set_indicator_state", _OWN, "Change indicators"),
    Rule(f"{_NODE}:inject_nmi", _SET_UP, "Interrupt the machine (NMI)"),
    Rule(f"{_NODE}:vif:list", _SEE, "List the network interfaces attached"),
    Rule(f"{_NODE}:vif:attach", _OPERATE, "Attach a network interface"),
    Rule(f"{_NODE}:vif:detach", _OPERATE, "Detach a network interface"),
    Rule(f"{_NODE}:vmedia:get", _SEE, "List virtual media"),
    Rule(f"{_NODE}:vmedia:attach", _USE, "Attach virtual media"),
    Rule(f"{_NODE}:vmedia:detach", _USE, "Detach virtual media"),
    Rule(f"{_NODE}:traits:list", _SEE, "List traits"),
    Rule(f"{_NODE}:traits:set", _SET_UP, "Set traits"),
    Rule(f"{_NODE}:traits:delete", _SET_UP, "Remove traits"),
    Rule(f"{_NODE}:bios:get", _SEE, "Show BIOS settings"),
    Rule(f"{_NODE}:firmware:get", _SEE, "Show firmware versions"),
    Rule(f"{_NODE}:history:get", _SEE_WITHIN, "Show what happened to a node, and what is done to it"),
    Rule(f"{_NODE}:inventory:get", _SEE_WITHIN, "Show the inventory"),
    Rule(f"{_NODE}:vendor_passthru", _SYSTEM_ADMIN, "Call vendor functions of a node"),
    Rule(f"{_NODE}:ipa_heartbeat", "", "Send heartbeats: agents, without a token"),
)  # fmt: skip

NETWORK = (
    Rule("baremetal:port:get", _SEE, "Show a port"),
    Rule("baremetal:port:list", _LIST, "List ports of nodes of the own project"),
    Rule("baremetal:port:list_all", _SYSTEM_READ, "List every port"),
    Rule("baremetal:port:create", _WIRE, "Create a port"),
    Rule("baremetal:port:update", _SET_UP, "Change a port"),
    Rule("baremetal:port:delete", _WIRE, "Forget a port"),
    Rule("baremetal:portgroup:get", _SEE, "Show a port group"),
    Rule("baremetal:portgroup:list", _LIST, "List port groups of nodes of the own project"),
    Rule("baremetal:portgroup:list_all", _SYSTEM_READ, "List every port group"),
    Rule("baremetal:portgroup:create", _WIRE, "Create a port group"),
    Rule("baremetal:portgroup:update", _SET_UP, "Change a port group"),
    Rule("baremetal:portgroup:delete", _WIRE, "Forget a port group"),
)  # fmt: skip

VOLUME = (
    Rule("baremetal:volume:get", _SEE, "Show a volume connector or target"),
    Rule("baremetal:volume:list", _LIST, "List volume connectors and targets of nodes of the own project"),
    Rule("baremetal:volume:list_all", _SYSTEM_READ, "List every volume connector and target"),
    Rule("baremetal:volume:create", _MANAGE, "Create a volume connector or target"),
    Rule("baremetal:volume:update", _OPERATE, "Change a volume connector or target"),
    Rule("baremetal:volume:delete", _MANAGE, "Forget a volume connector or target"),
    Rule("baremetal:volume:view_target_properties", "rule:system_reader or role:admin", "See `properties` of a volume target"),
)  # fmt: skip

ALLOCATION = (
    Rule("baremetal:allocation:get", _ALLOCATION_READ, "Show an allocation"),
    Rule("baremetal:allocation:list", _LIST, "List allocations of the own project"),
    Rule("baremetal:allocation:list_all", _SYSTEM_READ, "List every allocation"),
    Rule("baremetal:allocation:create", "rule:system_member or role:member", "Create an allocation that the own project owns"),
    Rule("baremetal:allocation:create_restricted", _SYSTEM_WORK, "Create an allocation of any owner, or of none"),
    Rule("baremetal:allocation:update", _ALLOCATION_WORK, "Change an allocation"),
    Rule("baremetal:allocation:delete", _ALLOCATION_WORK, "Give an allocation back"),
)  # fmt: skip

RUNBOOK = (
    Rule("baremetal:runbook:get", "rule:system_reader or (role:reader and project_id:%(runbook.owner)s) or role:service", "Show a runbook that is not public"),
    Rule("baremetal:runbook:list", _LIST, "List public runbooks and those of the own project"),
    Rule("baremetal:runbook:list_all", _SYSTEM_READ, "List every runbook"),
    Rule("baremetal:runbook:create", "rule:system_member or role:manager or role:service", "Create a runbook that the own project owns"),
    Rule("baremetal:runbook:update", _RUNBOOK_WORK, "Change a runbook"),
    Rule("baremetal:runbook:update:public", _SYSTEM_WORK, "Change `public` of a runbook"),
    Rule("baremetal:runbook:update:owner", _SYSTEM_WORK, "Change `owner` of a runbook; create one of any owner, or public"),
    Rule("baremetal:runbook:delete", _RUNBOOK_WORK, "Forget a runbook"),
    Rule("baremetal:runbook:use", _RUNBOOK_WORK, "Run a runbook that is not public"),
)  # fmt: skip

WHOLE = (
    Rule("baremetal:chassis:get", _SYSTEM_READ, "List and show chassis", SYSTEM),
    Rule("baremetal:chassis:create", _SYSTEM_ADMIN, "Create a chassis", SYSTEM),
    Rule("baremetal:chassis:update", _SYSTEM_WORK, "Change a chassis", SYSTEM),
    Rule("baremetal:chassis:delete", _SYSTEM_ADMIN, "Forget a chassis", SYSTEM),
    Rule("baremetal:driver:get", _SYSTEM_READ, "List and show drivers", SYSTEM),
    Rule("baremetal:driver:get_properties", _SYSTEM_READ, "Show what a driver needs to know", SYSTEM),
    Rule("baremetal:driver:get_raid_logical_disk_properties", _SYSTEM_READ, "Show what a driver takes as RAID configuration", SYSTEM),
    Rule("baremetal:driver:vendor_passthru", _SYSTEM_ADMIN, "Call vendor functions of a driver", SYSTEM),
    Rule("baremetal:driver:ipa_lookup", "", "Look up a node: agents, without a token"),
    Rule("baremetal:driver:ipa_continue_inspection", "", "Send inspection data: agents, without a token"),
    Rule("baremetal:conductor:get", _SYSTEM_READ, "List and show conductors"),
    Rule("baremetal:shards:get", _SYSTEM_READ, "List shards"),
    Rule("baremetal:events:post", _SYSTEM_ADMIN, "Report events", SYSTEM),
    Rule("baremetal:deploy_template:get", _SYSTEM_READ, "List and show deploy templates"),
    Rule("baremetal:deploy_template:create", _SYSTEM_ADMIN, "Create a deploy template"),
    Rule("baremetal:deploy_template:update", _SYSTEM_ADMIN, "Change a deploy template"),
    Rule("baremetal:deploy_template:delete", _SYSTEM_ADMIN, "Forget a deploy template"),
    Rule("baremetal:inspection_rule:get", _SYSTEM_READ, "Show an inspection rule"),
    Rule("baremetal:inspection_rule:list_all", _SYSTEM_READ, "List inspection rules"),
    Rule("baremetal:inspection_rule:create", _SYSTEM_ADMIN, "Create an inspection rule"),
    Rule("baremetal:inspection_rule:update", _SYSTEM_ADMIN, "Change an inspection rule"),
    Rule("baremetal:inspection_rule:delete", _SYSTEM_ADMIN, "Forget an inspection rule"),
)  # fmt: skip

#: What the rules are about -> the rules, in the order of the documentation.
SECTIONS: Mapping[str, tuple[Rule, ...]] = {
    "People": PEOPLE,
    "Secrets": SECRETS,
    "Nodes": NODE,
    "Ports and port groups": NETWORK,
    "Volumes": VOLUME,
    "Allocations": ALLOCATION,
    "Runbooks": RUNBOOK,
    "The whole system": WHOLE,
}
RULES: Mapping[str, Rule] = {rule.name: rule for rules in SECTIONS.values() for rule in rules}
