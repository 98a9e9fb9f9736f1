// Forms made from fields (`schemas.js`); an error of the API stands at the field that it names.

import { element } from "./dom.js";

// The control of a field, with its current value.
function control({ name, type, required, options, pattern, maxLength, minimum, maximum }, value) {
  const common = { name, id: `field-${name}`, required, "aria-describedby": `told-${name}` };
  const choices = options || (type === "boolean" && ["true", "false"]);
  if (choices)
    return element("select", common, ["", ...choices].map(option =>
      element("option", { value: option, selected: option === String(value ?? "") }, option || "not set")));
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
  const controls = new Map(fields.map(field => [field.name, control(field, values[field.name])]));
  const messages = new Map(fields.map(({ name }) => [name, element("span.bad", { id: `told-${name}` })]));
  const general = element("p.bad", { role: "alert" });
  const root = element("form.fields", { novalidate: true, onsubmit: event => event.preventDefault() }, general,
    fields.map(field => element("label", {},
      element("span", {}, field.name, field.required && " (required)", field.type === "json" && " (JSON)"),
      field.description && element("span.muted", {}, field.description),
      controls.get(field.name), messages.get(field.name))));

  function tell(name, message) {
    messages.get(name).textContent = message;
    controls.get(name).setAttribute("aria-invalid", "true");
    controls.get(name).focus();
  }

  function forget() {
    general.textContent = "";
    for (const [name, input] of controls) {
      messages.get(name).textContent = "";
      input.removeAttribute("aria-invalid");
    }
  }

  // Return the values of all fields that have a value, or null if a value is invalid.
  function readValues() {
    const result = {};
    for (const field of fields) {
      const from = controls.get(field.name);
      try {
        if (!from.checkValidity()) throw new Error(from.validationMessage);
        const value = valueOf(field, from);
        if (value !== undefined) result[field.name] = value;
      } catch (error) {
        tell(field.name, error.message);
        return null;
      }
    }
    return result;
  }

  return {
    root,
    async submit(send) {
      forget();
      const formValues = readValues();
      if (!formValues) return false;
      try {
        await send(formValues);
        return true;
      } catch (error) {
        const namedField = fields.find(({ name }) => new RegExp(`(^|\\W)${name}\\W`).test(error.message));
        if (namedField) tell(namedField.name, error.message);
        else general.textContent = error.message;
        return false;
      }
    },
  };
}
