// The verbs of a node as buttons; each shows its dry run before it is confirmed.

import { dialog, notice } from "./dialogs.js";
import { element, failure, replace } from "./dom.js";

const DANGEROUS = new Set(["deleted", "rebuild", "clean", "abort"]);
//: Argument -> initial value of its field.
const FIRST = {
  clean_steps: '[\n  {"interface": "deploy", "step": "erase_devices_metadata"}\n]',
  service_steps: '[\n  {"interface": "power", "step": "reboot"}\n]',
  deploy_steps: "", rescue_password: "", runbook: "",
};
const AS_TEXT = new Set(["rescue_password", "runbook"]);

const path = node => `nodes/${node.uuid}/states/provision`;

// Show a verb: its arguments, what it would do, and the button that requests it.
function rehearse(api, node, verb, verbFacts, onRequested) {
  let acceptedRequest = null; // the request, as JSON, whose dry run is shown and was accepted
  const fields = verbFacts.takes.filter(name => name in FIRST).map(name => {
    const multiline = !AS_TEXT.has(name);
    const input = element(multiline ? "textarea" : "input", {
      name, spellcheck: "false", autocomplete: "off", type: name === "rescue_password" ? "password" : null,
      value: name === verbFacts.requires ? FIRST[name] : "",
    });
    return element("label", {}, name + (name === verbFacts.requires ? "" : " (optional)"), input);
  });
  const plan = element("div.plan", { "aria-live": "polite" });

  function body() {
    const parameters = { target: verb };
    for (const { name, value } of fields.map(label => label.querySelector("input, textarea"))) {
      if (!value.trim()) continue;
      try {
        parameters[name] = AS_TEXT.has(name) ? value : JSON.parse(value);
      } catch {
        throw new Error(`${name}: this is not JSON.`);
      }
    }
    return parameters;
  }

  async function dryRun() {
    acceptedRequest = null;
    replace(plan, element("p.muted", {}, "Asking…"));
    try {
      const parameters = body();
      const rehearsal = await api.put(path(node), { ...parameters, dry_run: true });
      if (rehearsal.accepted) acceptedRequest = JSON.stringify(parameters);
      const refusals = rehearsal.refused.map(refusal => element("p.bad", {}, refusal.reason));
      replace(plan, rehearsal.accepted
        ? [element("p", {}, `The node becomes ${rehearsal.to}. `, rehearsal.steps.length ? "Steps, in this order:" : "There are no steps."),
          element("ol", {}, rehearsal.steps.map(step => element("li", {}, element("code", {}, `${step.interface}.${step.step}`),
            element("span.muted", {}, ` ${step.source}${step.in_band ? ", by the agent" : ""}${step.child_node ? `, on ${step.child_node}` : ""}`)))),
          foreseen(rehearsal).map(consequence => element("p", {}, element("strong", {}, consequence))),
          refusals.length > 0 && [element("p", {}, "It would fail, because:"), refusals]]
        : [element("p", {}, "The node refuses this:"), refusals]);
    } catch (error) {
      replace(plan, failure(error));
    }
    return false;
  }

  async function request() {
    try {
      const parameters = body();
      if (acceptedRequest !== JSON.stringify(parameters)) return dryRun(); // only a shown dry run may be requested
      await api.put(path(node), parameters);
    } catch (error) {
      replace(plan, failure(error));
      return false;
    }
    notice(`${verb} is requested.`);
    onRequested();
    return true;
  }

  return dialog(`Dry run: ${verb}`, [fields, plan], [
    ...(fields.length ? [{ label: "Dry run", act: dryRun }] : []),
    { label: `Start ${verb}`, kind: DANGEROUS.has(verb) ? "danger" : "primary", act: request },
  ], verbFacts.requires ? null : dryRun);
}

// Confirm a change that has no dry run.
function confirm(title, content, action, onConfirmed) {
  const errorBox = element("div");
  return dialog(title, [content, errorBox], [{
    label: title, kind: "primary",
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

// Return what the agent would do, and which steps destroy data, according to a dry run.
export function foreseen({ agent, destroys = [] }) {
  const summary = agent?.summary || "";
  return [summary, ...destroys.filter(sentence => !summary.includes(sentence))].filter(Boolean);
}

// Return the buttons of the verbs that a node accepts, then `extraButtons`. verbs: as `why` lists
// them. onChange: called after a change.
export function buttons(api, node, release, verbs, onChange, extraButtons) {
  const make = (label, action, kind = "") => element(`button${kind}`, { type: "button", onclick: action }, label);
  const reason = element("input", { name: "reason" });
  const maintenance = node.maintenance
    ? make("End maintenance", () => confirm("End maintenance", `Reason of the maintenance: ${node.maintenance_reason || "none given"}`,
      () => api.delete(`nodes/${node.uuid}/maintenance`), onChange))
    : make("Maintenance", () => confirm("Maintenance", element("label", {}, "Reason", reason),
      () => api.put(`nodes/${node.uuid}/maintenance`, { reason: reason.value || null }), onChange));
  const power = target => make(target, () => confirm(target[0].toUpperCase() + target.slice(1), `The power of the node is ${node.power_state || "unknown"}.`,
    () => api.put(`nodes/${node.uuid}/states/power`, { target }), onChange));
  const idle = !node.reservation;
  return element("div.buttons", { role: "group", "aria-label": "Verbs" },
    verbs.filter(verb => verb !== "active").map(verb => make(verb, () => rehearse(api, node, verb, release.verbs[verb], onChange),
      DANGEROUS.has(verb) ? ".danger" : verb === "deploy" ? ".primary" : "")),
    idle && (node.power_state === "power on" ? ["power off", "rebooting"] : ["power on"]).map(power), maintenance, extraButtons);
}
