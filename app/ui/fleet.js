// The fleet: failures first, counts by state, filters, a table of all nodes, and work on many of them.

import { reporting } from "./dialogs.js";
import { element, failure, replace } from "./dom.js";
import { colourOf, facts } from "./facts.js";
import { faultyConductors } from "./faulty_conductors.js";
import { actionBar } from "./fleet_actions.js";
import { failedNodes } from "./fleet_failures.js";
import { chooseColumns, chosenColumns, showFilters } from "./fleet_filters.js";
import { Selection } from "./fleet_selection.js";
import { gathered } from "./live.js";
import { enrol } from "./node_form.js";
import { NodeTable } from "./node_table.js";
import { liveness } from "./parts.js";
import { permissions } from "./permissions.js";

//: Parameters of the address that are no filters.
const ORDER = ["sort_key", "sort_dir"];
const SELDOM = 10_000; // milliseconds between two reads of the failures: their filter has no index

export const page = { title: "Fleet", path: "/fleet", key: "f", show };

async function show(root, context) {
  const { api, live, keep, navigate, params, signal } = context;
  const [release, may] = await Promise.all([facts(), permissions(api)]);
  const query = { ...params };
  const columns = chosenColumns();
  const filters = () => Object.fromEntries(Object.entries(query).filter(([name]) => !ORDER.includes(name)));

  const strip = element("div.strip", { role: "group", "aria-label": "Nodes by state" });
  const chips = element("div.row"), tableRoot = element("div"), state = liveness();
  const selection = new Selection(filters, () => { bar.show(); table.mark(); });
  const bar = actionBar({ api, release, may, selection, navigate });
  const table = new NodeTable(tableRoot, { known: release, query, columns, selection, signal, onOrder: order });
  const failures = failedNodes(api, release, signal, () => choose({ where: release.failed }),
    may("node:set_provision_state") && element("button", { type: "button", onclick: retryAll }, "Retry failed…"));

  // Show the nodes of a changed query. counted: whether the counts by state remain valid.
  function changed(counted) {
    keep(page.path, query);
    selection.clear();
    showChips();
    if (!counted) table.total = null;
    table.restart();
    failures.element.hidden = Object.keys(filters()).length > 0 || !failed;
    if (counted && counts) return showCounts();
    counts = null;
    return count();
  }

  function order(name) {
    const down = query.sort_key === name && query.sort_dir !== "desc";
    Object.assign(query, { sort_key: name, sort_dir: down ? "desc" : "asc" });
    changed(true);
  }

  let counts = null, failed = 0; // counts of the current filters, but for the state; number of failed nodes
  const otherFilters = () => { const { provision_state: _, ...remainingFilters } = filters(); return remainingFilters; };

  function showCounts() {
    const state = query.provision_state;
    const countOf = name => counts.provision_states.find(entry => entry.provision_state === name)?.nodes || 0;
    selection.total = state ? countOf(state) : counts.nodes;
    table.setTotal(selection.total);
    bar.show();
    const isFailed = query.where === release.failed;
    const chip = (style, number, label, isPressed, action) => element(`button.count${style}`, {
      type: "button", "aria-pressed": String(isPressed), onclick: action,
    }, element("strong", {}, number.toLocaleString()), ` ${label}`);
    replace(strip,
      chip("", counts.nodes, "all", !state, () => choose({ provision_state: undefined })),
      (failed > 0 || isFailed) && chip(".failed", failed, "failed", isFailed, () => choose({ where: isFailed ? undefined : release.failed })),
      counts.provision_states.map(({ provision_state: name, nodes }) =>
        chip(`.${colourOf(release, name)}`, nodes, name, name === state, () => choose({ provision_state: name === state ? undefined : name }))));
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
      selection.total = null;
      table.setTotal(null); // the list reports its end itself
      replace(strip, "conductor" in otherQuery ? element("span.muted", {}, "Nodes of a conductor are not counted.")
        : ![0, 400].includes(error.status) && failure(error)); // the table tells these
    }
  }

  async function readFailures() {
    try {
      failed = await failures.read(!Object.keys(filters()).length);
      if (counts) showCounts();
    } catch { /* the table tells that the service does not answer */ }
  }

  // Change filters; those that are undefined are removed.
  function choose(change) {
    const isState = Object.keys(change).join() === "provision_state";
    for (const [name, value] of Object.entries(change))
      if (value === undefined) delete query[name];
      else query[name] = value;
    changed(isState);
  }

  const showChips = () => showFilters(chips, release, query, Object.keys(filters()), changed,
    element("button.quiet", { type: "button", onclick: () => chooseColumns(columns, () => table.restart()) }, "Columns"));

  function retryAll() {
    choose({ where: release.failed });
    selection.all();
    bar.choose("retry");
  }

  const enrolment = may("node:create") && element("button", {
    type: "button", onclick: () => reporting(() => enrol(api, node => navigate(`/nodes/${node.uuid}`))),
  }, "Enrol");
  replace(root, element("div.row", {}, element("h1", {}, "Fleet"), state.element, enrolment), faultyConductors(api, signal),
    failures.element, strip, chips, bar.element, tableRoot);
  showChips();
  const refresh = gathered(() => Promise.all([count(), table.refresh()]), 1000, signal);
  const refreshFailures = gathered(readFailures, SELDOM, signal);
  const renew = () => { refresh(); refreshFailures(); };
  await live.subscribe({}, {
    signal, onReset: renew,
    onEvents: events => {
      if (events.some(event => event.type.startsWith("node."))) refresh();
      if (events.some(event => /^(node|operation)\./.test(event.type))) refreshFailures();
    },
    onState: state.show,
  });
  table.restart();
  await count();
  void readFailures();
}
