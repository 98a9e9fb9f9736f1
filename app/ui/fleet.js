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
// The error follows the state: after a failed verification, the state is enroll, as for a new node.
const USUAL = ["provision_state", "last_error", "power_state", "maintenance", "holds", "driver", "resource_class", "provision_updated_at"];
//: Parameters of the address that are no filters.
const ORDER = ["sort_key", "sort_dir"];

export const page = { title: "Fleet", path: "/fleet", key: "f", show };

async function show(root, context) {
  const { api, live, keep, params, signal } = context;
  const release = await facts();
  const query = { ...params };
  const columns = JSON.parse(localStorage.getItem(KEPT) || "null") || USUAL;
  const selected = new Set();

  const strip = element("div.strip", { role: "group", "aria-label": "Nodes by state" });
  const chips = element("div.row");
  const bar = element("div.row.selection", { hidden: true, role: "group", "aria-label": "Selected nodes" });
  const state = liveness();
  const tableRoot = element("div");
  const filters = () => Object.fromEntries(Object.entries(query).filter(([name]) => !ORDER.includes(name)));

  const table = new NodeTable(tableRoot, { known: release, query, columns, selected, signal, onSelect: showSelection, onOrder: order });

  // Show the nodes of a changed query. counted: whether the counts by state remain valid.
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
  const otherFilters = () => { const { provision_state: _, ...remainingFilters } = filters(); return remainingFilters; };

  function showCounts() {
    const state = query.provision_state;
    const countOf = state => counts.provision_states.find(entry => entry.provision_state === state)?.nodes || 0;
    table.setTotal(state ? countOf(state) : counts.nodes);
    replace(strip,
      element("button.count", { type: "button", "aria-pressed": String(!state), onclick: () => choose(undefined) },
        element("strong", {}, counts.nodes.toLocaleString()), " all"),
      counts.provision_states.map(entry => element(`button.count.${release.states[entry.provision_state].kind}`, {
        type: "button", "aria-pressed": String(entry.provision_state === state), onclick: () => choose(entry.provision_state),
      }, element("strong", {}, entry.nodes.toLocaleString()), ` ${entry.provision_state}`)));
  }

  async function count() {
    const otherQuery = otherFilters();
    try {
      const stateCounts = await api.get("provision_states", otherQuery, signal);
      if (JSON.stringify(otherQuery) !== JSON.stringify(otherFilters())) return; // the filters have changed since
      counts = stateCounts;
      showCounts();
    } catch (error) {
      if (signal.aborted) return;
      table.setTotal(null); // the list reports its end itself
      replace(strip, "conductor" in otherQuery ? element("span.muted", {}, "Nodes of a conductor are not counted.") : failure(error));
    }
  }

  function choose(state) {
    if (state && state !== query.provision_state) query.provision_state = state;
    else delete query.provision_state;
    changed(true);
  }

  function showFilters() {
    const name = element("select", { "aria-label": "Filter", onchange: () => valueOf(name.value) },
      element("option", { value: "" }, "Add a filter…"),
      Object.keys(release.filters).filter(filterName => !(filterName in query)).sort().map(filterName => element("option", {}, filterName)));
    const activeFilters = Object.entries(filters());
    replace(chips, activeFilters.map(([filterName, value]) =>
      element("button.chip", { type: "button", "aria-label": `Remove the filter ${filterName}`, onclick: () => { delete query[filterName]; changed(); } },
        `${filterName} = ${value} ×`)), name,
      element("button.quiet", { type: "button", onclick: chooseColumns }, "Columns"));
    function valueOf(filterName) {
      const values = release.filters[filterName].values;
      const input = values
        ? element("select", { name: "value", "aria-label": filterName }, values.map(value => element("option", {}, value)))
        : element("input", { name: "value", required: true, "aria-label": filterName, placeholder: filterName });
      const form = element("form.row", {
        onsubmit: event => { event.preventDefault(); query[filterName] = input.value.trim(); changed(); },
      }, input, element("button", { type: "submit" }, "Filter"));
      name.replaceWith(form);
      input.focus();
    }
  }

  function chooseColumns() {
    const boxes = Object.keys(COLUMNS).map(name => element("label.inline", {},
      element("input", { type: "checkbox", name, checked: columns.includes(name) }), name));
    const use = () => {
      columns.splice(0, columns.length, ...boxes.map(box => box.firstChild).filter(checkbox => checkbox.checked).map(checkbox => checkbox.name));
      localStorage.setItem(KEPT, JSON.stringify(columns));
      table.restart();
    };
    dialog("Columns", element("div.choices", {}, boxes), [{ label: "Use these", kind: "primary", act: use }]);
  }

  // one for all selections: it keeps the chosen verb
  const verb = element("select", { "aria-label": "Verb" },
    Object.entries(release.verbs).filter(([, verbFacts]) => !verbFacts.requires).map(([name]) => element("option", {}, name)));

  const dryRunButton = element("button.primary", { type: "button", onclick: rehearsed }, "Dry run…");
  const finish = refusedCount => {
    if (refusedCount !== null) selected.clear();
    showSelection();
    table.draw();
  };

  async function rehearsed() {
    const nodes = [...selected];
    const showProgress = count => { dryRunButton.textContent = `${count} of ${nodes.length} nodes have answered…`; };
    dryRunButton.disabled = true; // one dry run at a time
    showProgress(0);
    try {
      finish(await rehearse(api, nodes, verb.value, notice, showProgress));
    } finally {
      dryRunButton.disabled = false;
      dryRunButton.textContent = "Dry run…";
    }
  }

  function showSelection() {
    bar.hidden = !selected.size;
    if (!selected.size) return;
    replace(bar, element("strong", {}, `${selected.size} selected`), verb, dryRunButton,
      element("button.quiet", { type: "button", onclick: () => finish(0) }, "Clear"));
  }

  replace(root, element("div.row", {}, element("h1", {}, "Fleet"), state.element), faultyConductors(api, signal), strip, chips, bar, tableRoot);
  showFilters();
  const refresh = gathered(() => Promise.all([count(), table.refresh()]), 1000, signal);
  await live.subscribe({}, {
    signal, onReset: refresh,
    onEvents: events => { if (events.some(event => event.type.startsWith("node."))) refresh(); },
    onState: state.show,
  });
  table.restart();
  await count();
}
