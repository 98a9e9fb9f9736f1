// The arguments of a verb as form fields: steps to choose from, runbooks by name, passwords hidden,
// configuration drives as an object, an address or base64.

import { element, replace } from "./dom.js";

//: Argument with steps -> the part of the address that lists those which a node offers.
const FLOWS = { clean_steps: "cleaning", service_steps: "service", deploy_steps: "deploy" };
const MASKED = "******";

const isMasked = value => JSON.stringify(value ?? null).includes(MASKED);

// The arguments of an operation that can be sent again: secrets are known to the service only.
export const sendable = values => Object.fromEntries(Object.entries(values || {}).filter(([, value]) =>
  value !== null && value !== undefined && !(Array.isArray(value) && !value.length) && !isMasked(value)));

// A step as a request has it, with the arguments that it requires.
const stepOf = (name, offered) => ({
  interface: offered.interface, step: offered.step,
  ...((name === "deploy_steps" || offered.args.length > 0) && {
    args: Object.fromEntries(offered.args.filter(argument => argument.required).map(argument => [argument.name, ""])),
  }),
  ...(name === "deploy_steps" && { priority: offered.priority || 50 }),
});

// Return the fields of a verb: { elements, body() }; body() throws for text that is no JSON.
// verbFacts: of the release. values: initial ones. node: UUID of the node whose steps are offered, if
// there is one. isKept: whether the service keeps the request, which then has no secrets.
export function verbArguments(api, verbFacts, { values = {}, node = null, isKept = false } = {}) {
  const controls = new Map();

  function stepsField(name) {
    const initial = values[name];
    const area = element("textarea", { name, spellcheck: "false", value: initial ? JSON.stringify(initial, null, 2) : "" });
    const offers = element("select", { "aria-label": "Steps that the node offers", hidden: true });
    controls.set(name, () => (area.value.trim() ? JSON.parse(area.value) : undefined));
    if (node) {
      api.get(`nodes/${node}/${FLOWS[name]}/steps`).then(steps => {
        if (!Array.isArray(steps) || !steps.length) return;
        replace(offers, element("option", { value: "" }, "Add a step…"),
          steps.map((step, index) => element("option", { value: String(index) }, `${step.interface}.${step.step}`)));
        offers.hidden = false;
        offers.addEventListener("change", () => {
          const chosen = steps[Number(offers.value)];
          let current;
          try {
            current = area.value.trim() ? JSON.parse(area.value) : [];
          } catch {
            current = [];
          }
          if (offers.value !== "") area.value = JSON.stringify([...current, stepOf(name, chosen)], null, 2);
          offers.value = "";
        });
      }, () => {}); // without a list, steps are typed
    }
    return [area, offers];
  }

  function runbookField(name) {
    const list = element("datalist", { id: "runbooks" });
    const input = element("input", { name, list: "runbooks", autocomplete: "off", value: values[name] || "" });
    controls.set(name, () => input.value.trim() || undefined);
    api.get("runbooks", { limit: 1000 }).then(({ runbooks }) =>
      replace(list, runbooks.map(runbook => element("option", { value: runbook.name }))), () => {});
    return [input, list];
  }

  const makers = {
    steps: stepsField, runbook: runbookField,
    "config drive": name => {
      const area = element("textarea", { name, spellcheck: "false", placeholder: '{"user_data": …}, an address, or base64' });
      controls.set(name, () => (area.value.trim().startsWith("{") ? JSON.parse(area.value) : area.value.trim() || undefined));
      return [area];
    },
    password: name => {
      const input = element("input", { name, type: "password", autocomplete: "off" });
      controls.set(name, () => input.value || undefined);
      return [input];
    },
    flag: name => {
      const input = element("input", { name, type: "checkbox", checked: Boolean(values[name]) });
      controls.set(name, () => input.checked || undefined);
      return [input];
    },
  };
  const alternatives = verbFacts.requires.length > 1 ? ` (or a ${verbFacts.requires[1]})` : " (required)";
  const fields = Object.entries(verbFacts.takes).filter(([, argument]) => !(isKept && argument.secret));
  const elements = fields.map(([name, { content }]) => {
    const [control, ...companions] = makers[content](name);
    const label = element(content === "flag" ? "label.inline" : "label", {},
      element("span", {}, name, name === verbFacts.requires[0] ? alternatives : " (optional)"), control);
    return [label, companions];
  });
  return {
    elements,
    body() {
      const body = {};
      for (const [name, read] of controls) {
        try {
          const value = read();
          if (value !== undefined) body[name] = value;
        } catch {
          throw new Error(`${name}: this is not JSON.`);
        }
      }
      return body;
    },
  };
}
