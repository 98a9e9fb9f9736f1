// Forms made from fields (`schemas.js`); an error of the API stands at the field that it names.

import { element } from "./dom.js";

// The control of a field, with its current value.
function control({ name, type, required, options, pattern, maxLength, minimum, maximum }, value) {
  const common = { name, id: `field-${name}`, required, "aria-describedby": `told-${name}` };
  const choices = options || (type === "boolean" && ["true", "false"]);
  if (choices)
    return element("select", common, ["", ...choices].map(each =>
      element("option", { value: each, selected: each === String(value ?? "") }, each || "not set")));
  if (type === "json")
    return element("textarea", { ...common, spellcheck: "false", value: value === undefined || value === null ? "" : JSON.stringify(value, null, 2) });
  const number = type === "integer" || type === "number";
  return element("input", {
    ...common, value: value ?? "", autocomplete: "off", type: number ? "number" : "text",
    step: type === "number" ? "any" : undefined, min: minimum, max: maximum, maxlength: maxLength, pattern,
  });
}

// The value of a control; undefined if it is empty. Throws for text that is no JSON.
function valueOf({ type }, { value }) {
  if (value === "") return undefined;
  if (type === "boolean") return value === "true";
  if (type === "integer" || type === "number") return Number(value);
  return type === "json" ? JSON.parse(value) : value;
}

// Make a form of fields. `submit(send)` checks the values, and sends them; it returns false if the
// form has to stay, with the reasons at the fields.
export function form(fields, values) {
  const controls = new Map(fields.map(each => [each.name, control(each, values[each.name])]));
  const told = new Map(fields.map(({ name }) => [name, element("span.bad", { id: `told-${name}` })]));
  const general = element("p.bad", { role: "alert" });
  const root = element("form.fields", { novalidate: true, onsubmit: event => event.preventDefault() }, general,
    fields.map(each => element("label", {},
      element("span", {}, each.name, each.required && " (required)", each.type === "json" && " (JSON)"),
      each.description && element("span.muted", {}, each.description),
      controls.get(each.name), told.get(each.name))));

  function tell(name, words) {
    told.get(name).textContent = words;
    controls.get(name).setAttribute("aria-invalid", "true");
    controls.get(name).focus();
  }

  function forget() {
    general.textContent = "";
    for (const [name, each] of controls) {
      told.get(name).textContent = "";
      each.removeAttribute("aria-invalid");
    }
  }

  // The values of all fields that have one; null if one is invalid.
  function given() {
    const found = {};
    for (const each of fields) {
      const from = controls.get(each.name);
      try {
        if (!from.checkValidity()) throw new Error(from.validationMessage);
        const value = valueOf(each, from);
        if (value !== undefined) found[each.name] = value;
      } catch (error) {
        tell(each.name, error.message);
        return null;
      }
    }
    return found;
  }

  return {
    root,
    async submit(send) {
      forget();
      const found = given();
      if (!found) return false;
      try {
        await send(found);
        return true;
      } catch (error) {
        const named = fields.find(({ name }) => new RegExp(`(^|\\W)${name}\\W`).test(error.message));
        if (named) tell(named.name, error.message);
        else general.textContent = error.message;
        return false;
      }
    },
  };
}
