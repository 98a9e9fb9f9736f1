// Enrolling, changing and deleting a node: forms from the API's schema and the driver's properties.

import { file } from "./api.js";
import { dialog, notice, reporting } from "./dialogs.js";
import { element, failure, replace } from "./dom.js";
import { form } from "./forms.js";
import { bodySchema, changeable, fieldsOf, patchOf } from "./schemas.js";
import { nameOf, sendEach } from "./sending.js";

//: Fields that operators fill in, in this order; the others are folded.
const FIRST = ["name", "driver", "resource_class", "conductor_group", "description"];
//: Fields whose keys are entered one by one.
const INFO = "driver_info";
const SECRET = /password|secret|token|private_key|passphrase/i;
//: Type of a value that a node has -> type of its field.
const TYPES = { object: "json", number: "number", boolean: "boolean" };
const MASKED = "******";
const MACS = "ports";

const usual = (left, right) => (FIRST.indexOf(left.name) + 1 || 99) - (FIRST.indexOf(right.name) + 1 || 99);

// The fields of the body of a request, the usual ones first.
async function fieldsOfNode(names) {
  const document_ = await file("../openapi.json");
  return fieldsOf(bodySchema(document_, "/v1/nodes", "post"))
    .filter(field => field.name !== INFO && (!names || names.includes(field.name)))
    .map(field => ({ ...field, folded: !FIRST.includes(field.name) })).sort(usual);
}

// The properties of a driver as fields; the required ones first, without those of kernel and ramdisk.
async function fieldsOfDriver(api, driver, current) {
  const properties = await api.get(`drivers/${encodeURIComponent(driver)}/properties`);
  const names = [...new Set([...Object.keys(properties), ...Object.keys(current)])];
  return names.map(name => {
    const description = String(properties[name] || "not a property of this driver");
    return {
      name: `${INFO}/${name}`, type: TYPES[typeof current[name]] || (SECRET.test(name) ? "secret" : "string"), description,
      folded: !(/required/i.test(description) || SECRET.test(name) || /address|username/.test(name) || name in current),
    };
  });
}

// Split the values of a form into those of the node and those of its driver.
function parted(values) {
  const fields = {}, info = {};
  for (const [name, value] of Object.entries(values))
    if (name.startsWith(`${INFO}/`)) info[name.slice(INFO.length + 1)] = value;
    else if (name !== MACS) fields[name] = value;
  return { fields, info };
}

// Show a form to enrol a node. onEnrolled: called with the new node.
export async function enrol(api, onEnrolled) {
  const [fields, { drivers }] = await Promise.all([fieldsOfNode(), api.get("drivers").catch(() => ({ drivers: [] }))]);
  const content = element("div");
  let inputs = null, enrolled = null;

  async function show(driver) {
    const properties = driver ? await fieldsOfDriver(api, driver, {}).catch(() => []) : [];
    const ofNode = fields.map(field => (field.name === "driver" && drivers.length ? { ...field, options: drivers.map(each => each.name) } : field));
    const macs = { name: MACS, type: "lines", description: "MAC addresses, one a line: a port is made of each", folded: false };
    const entered = inputs?.controls || new Map();
    inputs = form([...ofNode.filter(field => !field.folded), ...properties, macs, ...ofNode.filter(field => field.folded)], { driver });
    for (const [name, input] of inputs.controls) input.value = entered.get(name)?.value ?? input.value; // another driver keeps what was typed
    inputs.controls.get("driver").addEventListener("change", event => reporting(() => show(event.target.value)));
    replace(content, inputs.root);
  }

  async function send(values) {
    const { fields: ofNode, info } = parted(values);
    enrolled ??= await api.post("nodes", { ...ofNode, ...(Object.keys(info).length && { [INFO]: info }) });
    const addresses = (values[MACS] || "").split(/[\s,]+/).filter(Boolean).map(address => ({ uuid: enrolled.uuid, name: address }));
    const refusals = await sendEach(addresses, ({ name }) => api.post("ports", { node_uuid: enrolled.uuid, address: name }));
    notice(refusals.length
      ? `${nameOf(enrolled)} is enrolled, but not these ports: ${refusals.map(({ node, reason }) => `${node.name}: ${reason}`).join("; ")}`
      : `${nameOf(enrolled)} is enrolled.`, refusals.length ? "bad" : "");
    onEnrolled(enrolled);
  }

  await show("");
  return dialog("Enrol a node", content, [{ label: "Enrol", kind: "primary", act: () => inputs.submit(send) }]);
}


// The path of a field in a JSON patch; a key of a document may have any character.
const pathOf = name => (name.startsWith(`${INFO}/`)
  ? `/${INFO}/${name.slice(INFO.length + 1).replaceAll("~", "~0").replaceAll("/", "~1")}` : `/${name}`);

// Show a form with the fields of a node that a request may change. onChange: called after a change.
export async function edit(api, node, onChange) {
  const content = element("div", {}, element("p.muted", {}, "Reading…"));
  let inputs = null, fields = [], current = {};
  async function read() {
    const document_ = await file("../openapi.json");
    const names = changeable({ change: bodySchema(document_, "/v1/nodes/{ident}", "patch") });
    const whole = await api.get(`nodes/${node.uuid}`);
    const info = whole[INFO] || {};
    const [ofNode, ofDriver] = await Promise.all([
      fieldsOfNode(names), fieldsOfDriver(api, whole.driver, info).catch(() => []),
    ]);
    fields = [...ofNode.filter(field => !field.folded), ...ofDriver, ...ofNode.filter(field => field.folded)]
      .filter(field => field.name !== "uuid").map(field => ({ ...field, required: false }));
    current = { ...whole, ...Object.fromEntries(Object.entries(info).map(([name, value]) => [`${INFO}/${name}`, value])) };
    inputs = form(fields, current);
    replace(content, inputs.root);
  }
  return dialog(`Change ${nameOf(node)}`, content, [{
    label: "Change", kind: "primary",
    act: async () => inputs !== null && inputs.submit(async values => {
      const patch = patchOf(fields, current, values, pathOf).filter(({ value }) => value !== MASKED);
      if (patch.length) await api.patch(`nodes/${node.uuid}`, patch);
      notice(patch.length ? `Changed: ${patch.map(({ path }) => path.slice(1)).join(", ")}.` : "Nothing was changed.");
      onChange();
    }),
  }], async () => {
    await read().catch(error => replace(content, failure(error)));
    return false;
  });
}

// Ask for a confirmation by the name of the node, and delete it. onDeleted: called afterwards.
export function remove(api, node, onDeleted) {
  const typed = element("input", { name: "name", autocomplete: "off" }), errorBox = element("div");
  return dialog(`Delete ${nameOf(node)}?`, [
    element("p", {}, "Its record, its ports and its history are deleted. The machine itself is not touched."),
    element("label", {}, `Type ${nameOf(node)} to confirm`, typed), errorBox,
  ], [{
    label: "Delete", kind: "danger",
    act: async () => {
      if (typed.value.trim() !== nameOf(node)) {
        replace(errorBox, element("p.bad", { role: "alert" }, "This is not its name."));
        return false;
      }
      try {
        await api.delete(`nodes/${node.uuid}`);
      } catch (error) {
        replace(errorBox, failure(error));
        return false;
      }
      notice(`${nameOf(node)} is deleted.`);
      onDeleted();
      return true;
    },
  }]);
}
