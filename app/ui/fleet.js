// The fleet: counts by state, filters, and a table of all nodes.

import { dialog, notice } from "./dialogs.js";
import { element, failure, replace } from "./dom.js";
import { facts } from "./facts.js";
import { faultyConductors } from "./faulty_conductors.js";
import { gathered } from "./live.js";
import { COLUMNS, NodeTable } from "./node_table.js";
import { liveness } from "./parts.js";
import { rehearse } from "./fleet_verbs.js";

const KEPT = "ingot.columns";
// The error is beside the state: a node whose verification failed is enroll, as a new one.
const USUAL = ["provision_state", "last_error", "power_state", "maintenance", "holds", "driver", "resource_class", "provision_updated_at"];
//: Parameters of the address that are no filters.
const ORDER = ["sort_key", "sort_dir"];

export const page = { title: "Fleet", path: "/fleet", key: "f", show };

async function show(root, context) {
  const { api, live, keep, params, signal } = context;
  const known = await facts();
  const query = { ...params };
  const columns = JSON.parse(localStorage.getItem(KEPT) || "null") || USUAL;
  const selected = new Set();

  const strip = element("div.strip", { role: "group", "aria-label": "Nodes by state" });
  const chips = element("div.row");
  const bar = element("div.row.selection", { hidden: true, role: "group", "aria-label": "Selected nodes" });
  const state = liveness();
  const place = element("div");
  const filters = () => Object.fromEntries(Object.entries(query).filter(([name]) => !ORDER.includes(name)));

  const table = new NodeTable(place, { known, query, columns, selected, signal, onSelect: showSelection, onOrder: order });

  // Show the nodes of a changed query. counted: whether the counts by state are still right.
  function changed(counted) {
    keep(page.path, query);
    selected.clear();
    showSelection();
    showFilters();
    if (!counted) table.total = null;
    table.restart();
    if (counted && counts) return showCounts();
    counts = null;
    return count();
  }

  function order(name) {
    const down = query.sort_key === name && query.sort_dir !== "desc";
    Object.assign(query, { sort_key: name, sort_dir: down ? "desc" : "asc" });
    changed(true);
  }

  let counts = null; // of the current filters, but for the state
  const otherFilters = () => { const { provision_state: _, ...others } = filters(); return others; };

  function showCounts() {
    const chosen = query.provision_state;
    const of = state => counts.provision_states.find(each => each.provision_state === state)?.nodes || 0;
    table.setTotal(chosen ? of(chosen) : counts.nodes);
    replace(strip,
      element("button.count", { type: "button", "aria-pressed": String(!chosen), onclick: () => choose(undefined) },
        element("strong", {}, counts.nodes.toLocaleString()), " all"),
      counts.provision_states.map(each => element(`button.count.${known.states[each.provision_state].kind}`, {
        type: "button", "aria-pressed": String(each.provision_state === chosen), onclick: () => choose(each.provision_state),
      }, element("strong", {}, each.nodes.toLocaleString()), ` ${each.provision_state}`)));
  }

  async function count() {
    const others = otherFilters();
    try {
      const found = await api.get("provision_states", others, signal);
      if (JSON.stringify(others) !== JSON.stringify(otherFilters())) return; // of filters that were changed since
      counts = found;
      showCounts();
    } catch (error) {
      if (signal.aborted) return;
      table.setTotal(null); // the list itself tells where it ends
      replace(strip, "conductor" in others ? element("span.muted", {}, "Nodes of a conductor are not counted.") : failure(error));
    }
  }

  function choose(chosen) {
    if (chosen && chosen !== query.provision_state) query.provision_state = chosen;
    else delete query.provision_state;
    changed(true);
  }

  function showFilters() {
    const name = element("select", { "aria-label": "Filter", onchange: () => valueOf(name.value) },
      element("option", { value: "" }, "Add a filter…"),
      Object.keys(known.filters).filter(each => !(each in query)).sort().map(each => element("option", {}, each)));
    const given = Object.entries(filters());
    replace(chips, given.map(([each, value]) =>
      element("button.chip", { type: "button", "aria-label": `Remove the filter ${each}`, onclick: () => { delete query[each]; changed(); } },
        `${each} = ${value} ×`)), name,
      element("button.quiet", { type: "button", onclick: chooseColumns }, "Columns"));
    function valueOf(chosen) {
      const values = known.filters[chosen].values;
      const input = values
        ? element("select", { name: "value", "aria-label": chosen }, values.map(each => element("option", {}, each)))
        : element("input", { name: "value", required: true, "aria-label": chosen, placeholder: chosen });
      const form = element("form.row", {
        onsubmit: event => { event.preventDefault(); query[chosen] = input.value.trim(); changed(); },
      }, input, element("button", { type: "submit" }, "Filter"));
      name.replaceWith(form);
      input.focus();
    }
  }

  function chooseColumns() {
    const boxes = Object.keys(COLUMNS).map(name => element("label.inline", {},
      element("input", { type: "checkbox", name, checked: columns.includes(name) }), name));
    const use = () => {
      columns.splice(0, columns.length, ...boxes.map(each => each.firstChild).filter(each => each.checked).map(each => each.name));
      localStorage.setItem(KEPT, JSON.stringify(columns));
      table.restart();
    };
    dialog("Columns", element("div.choices", {}, boxes), [{ label: "Use these", kind: "primary", act: use }]);
  }

  // one for all selections: it keeps the chosen verb
  const verb = element("select", { "aria-label": "Verb" },
    Object.entries(known.verbs).filter(([, each]) => !each.requires).map(([name]) => element("option", {}, name)));

  const ask = element("button.primary", { type: "button", onclick: rehearsed }, "Dry run…");
  const done = refused => {
    if (refused !== null) selected.clear();
    showSelection();
    table.draw();
  };

  async function rehearsed() {
    const nodes = [...selected];
    const asked = count => { ask.textContent = `${count} of ${nodes.length} nodes have answered…`; };
    ask.disabled = true; // one dry run at a time
    asked(0);
    try {
      done(await rehearse(api, nodes, verb.value, notice, asked));
    } finally {
      ask.disabled = false;
      ask.textContent = "Dry run…";
    }
  }

  function showSelection() {
    bar.hidden = !selected.size;
    if (!selected.size) return;
    replace(bar, element("strong", {}, `${selected.size} selected`), verb, ask,
      element("button.quiet", { type: "button", onclick: () => done(0) }, "Clear"));
  }

  replace(root, element("div.row", {}, element("h1", {}, "Fleet"), state.element), faultyConductors(api, signal), strip, chips, bar, place);
  showFilters();
  const again = gathered(() => Promise.all([count(), table.refresh()]), 1000, signal);
  await live.subscribe({}, {
    signal, onReset: again,
    onEvents: events => { if (events.some(each => each.type.startsWith("node."))) again(); },
    onState: state.show,
  });
  table.restart();
  await count();
}
