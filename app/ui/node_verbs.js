// What can be done with a node, as buttons: retry, verbs, power, maintenance, boot device.

import { dialog } from "./dialogs.js";
import { element, failure, replace } from "./dom.js";
import { form } from "./forms.js";
import { DANGEROUS, rehearse } from "./verb_dialog.js";
import { plain } from "./words.js";

// Confirm a change that has no dry run.
function confirm(title, content, action, onConfirmed, kind = "primary") {
  const errorBox = element("div");
  return dialog(title, [content, errorBox], [{
    label: title, kind,
    act: async () => {
      try {
        await action();
      } catch (error) {
        replace(errorBox, failure(error));
        return false;
      }
      onConfirmed();
      return true;
    },
  }]);
}

const capital = text => text[0].toUpperCase() + text.slice(1);
const make = (word, explanation, action, kind = "") => element(`button${kind}`, { type: "button", onclick: action },
  word, explanation && element("small", {}, explanation));

// Buttons of the power: those that the machine's state allows; the system may be asked first.
function powerButtons(api, node, onChange) {
  const softly = { "power off": "soft power off", rebooting: "soft rebooting" };
  const button = target => make(target, plain(target), () => {
    const soft = element("input", { type: "checkbox", name: "softly" });
    return confirm(capital(target), [
      element("p", {}, `The power of the node is ${node.power_state || "unknown"}.`),
      softly[target] && element("label.inline", {}, soft, "Let the operating system shut down first"),
    ], () => api.put(`nodes/${node.uuid}/states/power`, { target: soft.checked ? softly[target] : target }), onChange);
  });
  return (node.power_state === "power on" ? ["power off", "rebooting"] : ["power on"]).map(button);
}

function maintenanceButton(api, node, onChange) {
  if (node.maintenance)
    return make("End maintenance", "", () => confirm("End maintenance", `Reason of the maintenance: ${node.maintenance_reason || "none given"}`,
      () => api.delete(`nodes/${node.uuid}/maintenance`), onChange));
  const reason = element("input", { name: "reason" });
  return make("Maintenance", "", () => confirm("Maintenance", element("label", {}, "Reason", reason),
    () => api.put(`nodes/${node.uuid}/maintenance`, { reason: reason.value || null }), onChange));
}

// Show the boot device of a machine, and the form that sets another one of those it supports.
async function chooseBootDevice(api, node, onChange) {
  const path = `nodes/${node.uuid}/management/boot_device`;
  const content = element("div", {}, element("p.muted", {}, "Asking the BMC…"));
  let inputs = null;
  const read = async () => {
    const [current, { supported_boot_devices: devices }] = await Promise.all([api.get(path), api.get(`${path}/supported`)]);
    inputs = form([
      { name: "boot_device", type: "string", required: true, options: devices },
      { name: "persistent", type: "boolean", description: "true: for each boot; false: for the next one only" },
    ], { boot_device: current.boot_device, persistent: current.persistent ?? false });
    replace(content, inputs.root);
  };
  return dialog("Boot device", content, [{
    label: "Set", kind: "primary",
    act: async () => inputs !== null && inputs.submit(async values => { await api.put(path, values); onChange(); }),
  }], async () => {
    await read().catch(error => replace(content, failure(error)));
    return false;
  });
}

// Return the buttons of a node, then `extraButtons`. verbs: as `why` lists them. retry: see
// retries.js. may: the caller's permissions. onChange: called after a change.
export function buttons(api, node, release, { verbs, retry, may, onChange, extraButtons }) {
  const show = (verb, options) => rehearse(api, node, verb, release.verbs[verb], { onRequested: onChange, ...options });
  const repeat = retry?.verb
    ? () => show(retry.verb, { values: retry.values, title: `Retry: ${retry.verb}` })
    : () => confirm(`Retry: ${retry.power}`, `The power of the node is ${node.power_state || "unknown"}.`,
      () => api.put(`nodes/${node.uuid}/states/power`, { target: retry.power }), onChange);
  const mayRetry = retry && (retry.verb || may("node:set_power_state"));
  return element("div.buttons", { role: "group", "aria-label": "Verbs" },
    mayRetry && make("Retry", retry.verb || retry.power, repeat, ".primary"),
    verbs.filter(verb => verb !== "active").map(verb => make(verb, plain(verb), () => show(verb),
      DANGEROUS.has(verb) ? ".danger" : verb === "deploy" && !mayRetry ? ".primary" : "")),
    !node.reservation && may("node:set_power_state") && powerButtons(api, node, onChange),
    may(node.maintenance ? "node:clear_maintenance" : "node:set_maintenance") && maintenanceButton(api, node, onChange),
    may("node:set_boot_device") && may("node:get_boot_device") && make("Boot device", "", () => chooseBootDevice(api, node, () => {})),
    extraButtons);
}
