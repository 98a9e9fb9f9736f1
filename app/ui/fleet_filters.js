// The filters of the fleet: chips that remove them, a form that adds one, and the choice of columns.

import { dialog } from "./dialogs.js";
import { element, replace } from "./dom.js";
import { COLUMNS } from "./node_table.js";

const KEPT = "ingot.columns";
// The error follows the state: after a failed verification, the state is enroll, as for a new node.
const USUAL = ["provision_state", "last_error", "provision_updated_at", "power_state", "maintenance", "holds", "driver", "resource_class"];
const USUAL_OF_PHONE = ["provision_state"];

// The columns of the table: the chosen ones, or the usual ones of this screen.
export const chosenColumns = () => JSON.parse(localStorage.getItem(KEPT) || "null")
  || [...(matchMedia("(max-width: 760px)").matches ? USUAL_OF_PHONE : USUAL)];

// Show a dialog that changes `columns`; onUse is called afterwards.
export function chooseColumns(columns, onUse) {
  const boxes = Object.keys(COLUMNS).map(name => element("label.inline", {},
    element("input", { type: "checkbox", name, checked: columns.includes(name) }), name));
  const use = () => {
    columns.splice(0, columns.length, ...boxes.map(box => box.firstChild).filter(checkbox => checkbox.checked).map(checkbox => checkbox.name));
    localStorage.setItem(KEPT, JSON.stringify(columns));
    onUse();
  };
  dialog("Columns", element("div.choices", {}, boxes), [{ label: "Use these", kind: "primary", act: use }]);
}

// Show the filters of a query in `root`. names: of the parameters that are filters. onChange is called
// after a change of the query. further: elements at the end.
export function showFilters(root, release, query, names, onChange, further) {
  const name = element("select", { "aria-label": "Filter", onchange: () => askValue(name.value) },
    element("option", { value: "" }, "Add a filter…"),
    Object.keys(release.filters).filter(filterName => !(filterName in query)).sort().map(filterName => element("option", {}, filterName)));
  const wordsOf = filterName => (filterName === "where" && query.where === release.failed ? "failed" : `${filterName} = ${query[filterName]}`);
  replace(root, names.map(filterName => element("button.chip", {
    type: "button", "aria-label": `Remove the filter ${filterName}`, onclick: () => { delete query[filterName]; onChange(); },
  }, `${wordsOf(filterName)} ×`)), name, further);

  function askValue(filterName) {
    const values = release.filters[filterName].values;
    const input = values
      ? element("select", { name: "value", "aria-label": filterName }, values.map(value => element("option", {}, value)))
      : element("input", { name: "value", required: true, "aria-label": filterName, placeholder: filterName });
    const form = element("form.row", {
      onsubmit: event => { event.preventDefault(); query[filterName] = input.value.trim(); onChange(); },
    }, input, element("button", { type: "submit" }, "Filter"));
    name.replaceWith(form);
    input.focus();
  }
}
