// The verbs of a node as buttons; each shows its dry run before it is confirmed.

import { dialog, notice } from "./dialogs.js";
import { element, failure, replace } from "./dom.js";

const DANGEROUS = new Set(["deleted", "rebuild", "clean", "abort"]);
//: Argument -> what its field has at first.
const FIRST = {
  clean_steps: '[\n  {"interface": "deploy", "step": "erase_devices_metadata"}\n]',
  service_steps: '[\n  {"interface": "power", "step": "reboot"}\n]',
  deploy_steps: "", rescue_password: "", runbook: "",
};
const AS_TEXT = new Set(["rescue_password", "runbook"]);

const path = node => `nodes/${node.uuid}/states/provision`;

// Show a verb: its arguments, what it would do, and the button that requests it.
function rehearse(api, node, verb, about, done) {
  let accepted = null; // the request, as JSON, whose dry run is shown and was accepted
  const fields = about.takes.filter(name => name in FIRST).map(name => {
    const multiline = !AS_TEXT.has(name);
    const input = element(multiline ? "textarea" : "input", {
      name, spellcheck: "false", autocomplete: "off", type: name === "rescue_password" ? "password" : null,
      value: name === about.requires ? FIRST[name] : "",
    });
    return element("label", {}, name + (name === about.requires ? "" : " (optional)"), input);
  });
  const plan = element("div.plan", { "aria-live": "polite" });

  function body() {
    const given = { target: verb };
    for (const { name, value } of fields.map(each => each.querySelector("input, textarea"))) {
      if (!value.trim()) continue;
      try {
        given[name] = AS_TEXT.has(name) ? value : JSON.parse(value);
      } catch {
        throw new Error(`${name}: this is not JSON.`);
      }
    }
    return given;
  }

  async function dryRun() {
    accepted = null;
    replace(plan, element("p.muted", {}, "Asking…"));
    try {
      const asked = body();
      const found = await api.put(path(node), { ...asked, dry_run: true });
      if (found.accepted) accepted = JSON.stringify(asked);
      const refused = found.refused.map(each => element("p.bad", {}, each.reason));
      replace(plan, found.accepted
        ? [element("p", {}, `The node becomes ${found.to}. `, found.steps.length ? "Steps, in this order:" : "There are no steps."),
          element("ol", {}, found.steps.map(step => element("li", {}, element("code", {}, `${step.interface}.${step.step}`),
            element("span.muted", {}, ` ${step.source}${step.in_band ? ", by the agent" : ""}${step.child_node ? `, on ${step.child_node}` : ""}`)))),
          foreseen(found).map(words => element("p", {}, element("strong", {}, words))),
          refused.length > 0 && [element("p", {}, "It would fail, because:"), refused]]
        : [element("p", {}, "The node refuses this:"), refused]);
    } catch (error) {
      replace(plan, failure(error));
    }
    return false;
  }

  async function request() {
    try {
      const asked = body();
      if (accepted !== JSON.stringify(asked)) return dryRun(); // what is requested was shown before
      await api.put(path(node), asked);
    } catch (error) {
      replace(plan, failure(error));
      return false;
    }
    notice(`${verb} is requested.`);
    done();
    return true;
  }

  return dialog(`Dry run: ${verb}`, [fields, plan], [
    ...(fields.length ? [{ label: "Dry run", act: dryRun }] : []),
    { label: `Start ${verb}`, kind: DANGEROUS.has(verb) ? "danger" : "primary", act: request },
  ], about.requires ? null : dryRun);
}

// Confirm a change that has no dry run.
function confirm(title, words, act, done) {
  const told = element("div");
  return dialog(title, [words, told], [{
    label: title, kind: "primary",
    act: async () => {
      try {
        await act();
      } catch (error) {
        replace(told, failure(error));
        return false;
      }
      done();
      return true;
    },
  }]);
}

// Tell what the agent would do, and which steps destroy data, by a dry run.
export function foreseen({ agent, destroys = [] }) {
  const summary = agent?.summary || "";
  return [summary, ...destroys.filter(words => !summary.includes(words))].filter(Boolean);
}

// Return the buttons of the verbs that a node accepts, and `more` after them. verbs: as `why` lists them. done: called
// after a change.
export function buttons(api, node, known, verbs, done, more) {
  const make = (label, act, kind = "") => element(`button${kind}`, { type: "button", onclick: act }, label);
  const reason = element("input", { name: "reason" });
  const maintenance = node.maintenance
    ? make("End maintenance", () => confirm("End maintenance", `Reason of the maintenance: ${node.maintenance_reason || "none given"}`,
      () => api.delete(`nodes/${node.uuid}/maintenance`), done))
    : make("Maintenance", () => confirm("Maintenance", element("label", {}, "Reason", reason),
      () => api.put(`nodes/${node.uuid}/maintenance`, { reason: reason.value || null }), done));
  const power = target => make(target, () => confirm(target[0].toUpperCase() + target.slice(1), `The power of the node is ${node.power_state || "unknown"}.`,
    () => api.put(`nodes/${node.uuid}/states/power`, { target }), done));
  const idle = !node.reservation;
  return element("div.buttons", { role: "group", "aria-label": "Verbs" },
    verbs.filter(verb => verb !== "active").map(verb => make(verb, () => rehearse(api, node, verb, known.verbs[verb], done),
      DANGEROUS.has(verb) ? ".danger" : verb === "deploy" ? ".primary" : "")),
    idle && (node.power_state === "power on" ? ["power off", "rebooting"] : ["power on"]).map(power), maintenance, more);
}
