// What the caller may do: the policy rules that it passes, as the service decides them for requests.

//: Rules that the page asks for once, for its buttons beyond one node.
const OF_FLEET = [
  "baremetal:node:create", "baremetal:node:update", "baremetal:node:delete", "baremetal:node:set_provision_state",
  "baremetal:node:set_power_state", "baremetal:node:set_maintenance", "baremetal:node:clear_maintenance",
  "baremetal:node:set_boot_device", "baremetal:hold:create", "baremetal:rollout:create", "baremetal:rollout:update",
  "baremetal:rollout:list", "baremetal:operation:list", "baremetal:event:list", "baremetal:audit:get", "baremetal:service:get",
  "baremetal:port:create", "baremetal:webhook:update", "baremetal:conductor:drain",
];
//: Rules that the page of a node asks for.
const OF_NODE = [
  ...["get", "update", "delete", "set_power_state", "set_maintenance", "clear_maintenance", "set_boot_device", "get_boot_device",
    "history:get", "inventory:get", "bios:get", "firmware:get", "get_sensors", "benchmarks:get", "traits:list", "agent_logs:get", "get_console", "validate",
  ].map(name => `baremetal:node:${name}`),
  "baremetal:port:list", "baremetal:hold:create",
];

// Return a function of a rule, with or without "baremetal:": whether the caller passes it. query:
// { rules, node }.
export async function passed(api, query, signal) {
  const { rules } = await api.get("permissions", query, signal);
  const set = new Set(rules);
  return rule => set.has(rule) || set.has(`baremetal:${rule}`);
}

let ofFleet = null;
// The caller's permissions for resources of its project, or for all of a caller of the system.
export const permissions = api => (ofFleet ??= passed(api, { rules: OF_FLEET.join() }).catch(error => { ofFleet = null; throw error; }));

// The caller's permissions for a node.
export const permissionsOf = (api, node, signal) => passed(api, { rules: OF_NODE.join(), node }, signal);
