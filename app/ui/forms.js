// Forms made from fields (`schemas.js`); an error of the API stands at the field that it names.

import { dialog } from "./dialogs.js";
import { element } from "./dom.js";

// The control of a field, with its current value.
function control({ name, type, required, options, pattern, maxLength, minimum, maximum, suggestions }, value) {
  const common = { name, id: `field-${name}`, required, "aria-describedby": `told-${name}` };
  const choices = options || (type === "boolean" && ["true", "false"]);
  if (choices)
    return element("select", common, ["", ...choices].map(option =>
      element("option", { value: option, selected: option === String(value ?? "") }, option || "not set")));
  if (type === "json" || type === "lines")
    return element("textarea", {
      ...common, spellcheck: "false", value: value === undefined || value === null ? "" : type === "lines" ? value : JSON.stringify(value, null, 2),
    });
  const number = type === "integer" || type === "number";
  return element("input", {
    ...common, value: value ?? "", autocomplete: type === "secret" ? "new-password" : "off",
    type: number ? "number" : type === "secret" ? "password" : "text", list: suggestions ? `list-${name}` : undefined,
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

const escaped = name => name.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");

// Make a form of fields. A field is { name, type, required, options, suggestions, description, folded,
// ... }; `folded` ones are below "Other fields". `submit(send)` checks the values, and sends them; it
// returns false if the form has to stay, with the reasons at the fields.
export function form(fields, values) {
  const controls = new Map(fields.map(field => [field.name, control(field, values[field.name])]));
  const messages = new Map(fields.map(({ name }) => [name, element("span.bad", { id: `told-${name}` })]));
  const general = element("p.bad", { role: "alert" });
  const labelOf = field => element("label", {},
    element("span", {}, field.name, field.required && " (required)", field.type === "json" && " (JSON)"),
    field.description && element("span.muted", {}, field.description),
    controls.get(field.name),
    field.suggestions && element("datalist", { id: `list-${field.name}` }, field.suggestions.map(value => element("option", { value }))),
    messages.get(field.name));
  const folded = fields.filter(field => field.folded);
  const fold = folded.length > 0 && element("details", {}, element("summary", {}, `Other fields (${folded.length})`),
    element("div.fields", {}, folded.map(labelOf)));
  const root = element("form.fields", { novalidate: true, onsubmit: event => event.preventDefault() }, general,
    fields.filter(field => !field.folded).map(labelOf), fold);

  function tell(name, message) {
    messages.get(name).textContent = message;
    controls.get(name).setAttribute("aria-invalid", "true");
    if (fold && fold.contains(controls.get(name))) fold.open = true;
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
    root, controls,
    async submit(send) {
      forget();
      const formValues = readValues();
      if (!formValues) return false;
      try {
        await send(formValues);
        return true;
      } catch (error) {
        const namedField = fields.find(({ name }) => new RegExp(`(^|\\W)${escaped(name)}(\\W|$)`).test(error.message));
        if (namedField) tell(namedField.name, error.message);
        else general.textContent = error.message;
        return false;
      }
    },
  };
}

// Show a form in a dialog; it stays open until `send(values)` has succeeded. content: above the form.
export function formDialog({ title, label = title, kind = "primary", fields, values = {}, content = [] }, send) {
  const inputs = form(fields, values);
  return dialog(title, [content, inputs.root], [{ label, kind, act: () => inputs.submit(send) }]);
}

// Check boxes of choices, name -> label, of which at least one stays checked. onChange is called with the
// checked names.
export function choices(labels, checkedNames, onChange) {
  const boxes = Object.entries(labels).map(([name, label]) => element("label.inline", {},
    element("input", { type: "checkbox", name, checked: checkedNames.includes(name), onchange: change }), label));
  function change(event) {
    const names = boxes.map(box => box.querySelector("input")).filter(box => box.checked).map(box => box.name);
    if (names.length) onChange(names);
    else event.target.checked = true;
  }
  return boxes;
}
