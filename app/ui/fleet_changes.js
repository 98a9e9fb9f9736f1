// Changes of several nodes that are no verbs: power, maintenance, holds, boot device, fields, deletion.

import { file } from "./api.js";
import { dialog, notice } from "./dialogs.js";
import { element } from "./dom.js";
import { form } from "./forms.js";
import { bodySchema, changeable, fieldsOf } from "./schemas.js";
import { refusalList, sendEach } from "./sending.js";
import { POWER, counted, withPlain } from "./words.js";

const reason = { name: "reason", type: "string", maxLength: 4096 };

// The fields of nodes with one value, which may be set for several at once.
async function fields() {
  const document_ = await file("../openapi.json");
  const names = changeable({ change: bodySchema(document_, "/v1/nodes/{ident}", "patch") });
  return fieldsOf(bodySchema(document_, "/v1/nodes", "post"))
    .filter(({ name, type }) => names.includes(name) && type !== "json" && !["name", "uuid", "instance_uuid"].includes(name));
}

const power = target => ({
  title: withPlain(target), rule: "node:set_power_state", isDangerous: true,
  send: (api, node) => api.put(`nodes/${node.uuid}/states/power`, { target }),
});

//: Key -> { title, rule of the policy, fields of its form, send(api, node, values) }.
export const CHANGES = {
  ...Object.fromEntries(Object.keys(POWER).map(target => [target, power(target)])),
  maintenance: {
    title: "maintenance", rule: "node:set_maintenance", fields: () => [reason],
    send: (api, node, values) => api.put(`nodes/${node.uuid}/maintenance`, { reason: values.reason ?? null }),
  },
  "end maintenance": {
    title: "end maintenance", rule: "node:clear_maintenance", send: (api, node) => api.delete(`nodes/${node.uuid}/maintenance`),
  },
  hold: {
    title: "hold", rule: "hold:create",
    fields: release => [
      { name: "kind", type: "string", required: true, options: release.filters.hold.values }, { ...reason, required: true },
      { name: "hours", type: "number", minimum: 0, description: "until it expires; empty: until it is ended" },
    ],
    send: (api, node, { kind, reason: text, hours }) => api.post(`nodes/${node.uuid}/holds`, {
      kind, reason: text, ...(hours !== undefined && { expires_in: Math.ceil(hours * 3600) }),
    }),
  },
  "boot device": {
    title: "boot device", rule: "node:set_boot_device",
    fields: async () => fieldsOf(bodySchema(await file("../openapi.json"), "/v1/nodes/{ident}/management/boot_device", "put")),
    send: (api, node, values) => api.put(`nodes/${node.uuid}/management/boot_device`, values),
  },
  "set field": {
    title: "set a field, as the conductor group", rule: "node:update",
    fields: async () => [
      { name: "field", type: "string", required: true, options: (await fields()).map(({ name }) => name) },
      { name: "value", type: "string", description: "empty: it is removed" },
    ],
    send: async (api, node, { field, value }) => {
      const type = (await fields()).find(({ name }) => name === field).type;
      const typed = type === "boolean" ? value === "true" : type === "integer" || type === "number" ? Number(value) : value;
      const change = value === undefined ? { op: "remove", path: `/${field}` } : { op: "add", path: `/${field}`, value: typed };
      return api.patch(`nodes/${node.uuid}`, [change]);
    },
  },
  delete: {
    title: "delete", rule: "node:delete", isDangerous: true,
    fields: (_release, count) => [{ name: "number", type: "integer", required: true, minimum: count, maximum: count, description: `Type ${count} to delete the records of as many nodes` }],
    send: (api, node) => api.delete(`nodes/${node.uuid}`),
  },
};

// Ask for the values of a change, and send it to each node. Return a promise of the number of nodes
// that refused it, or null if it was not requested. onProgress(count) is called after each node.
export async function change(api, nodes, key, release, onProgress) {
  const { title, fields: fieldsOfChange, send, isDangerous } = CHANGES[key];
  const inputs = fieldsOfChange && form(await fieldsOfChange(release, nodes.length), {});
  let outcome = null;
  async function sendAll(values) {
    const refusals = await sendEach(nodes, node => send(api, node, values), onProgress);
    outcome = refusals.length;
    const accepted = nodes.length - refusals.length;
    notice([`${key}: ${counted(accepted, "node")} accepted it.`,
      refusals.length > 0 && [` ${counted(refusals.length, "node")} refused it: `, refusalList(refusals)]], refusals.length ? "bad" : "");
  }
  await dialog(`${title[0].toUpperCase()}${title.slice(1)}: ${counted(nodes.length, "node")}`, [
    element("p", {}, nodes.slice(0, 8).map(node => node.name || node.uuid).join(", "), nodes.length > 8 && ", …"), inputs?.root,
  ], [{
    label: `Request for ${nodes.length.toLocaleString()}`, kind: isDangerous ? "danger" : "primary",
    act: () => (inputs ? inputs.submit(sendAll) : sendAll({})),
  }]);
  return outcome;
}
