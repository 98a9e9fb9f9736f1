// Operations of the whole fleet: standing failures, current steps, admission queues, slow steps.

import { element, empty, table } from "./dom.js";
import { duration } from "./facts.js";
import { gathered } from "./live.js";
import { badge, fleetLink, liveness, nodeLink, part } from "./parts.js";
import { faultyConductors } from "./faulty_conductors.js";
import { age, ticking } from "./times.js";

// Milliseconds between two reads while changes go on: of what is active, and of the summaries.
const SOON = 1000, SELDOM = 10_000;
//: Value that may distinguish groups of failures -> its heading.
const DISTINCTIONS = {
  code: "Code", step: "Step", resource_class: "Resource class", driver: "Driver",
  conductor_group: "Conductor group", shard: "Shard", chassis_uuid: "Chassis",
};
const USUAL = "code,step";
//: State in the counts -> its words.
const STATES = {
  running: "running", waiting: "waiting for the machine", held: "held", queued: "sent to a conductor",
  admission: "waiting for a slot",
};

function nowDrawn({ counts, steps }) {
  return [
    element("dl.row.tallies", {}, Object.entries(STATES).map(([state, words]) =>
      element("div", { "data-state": state }, element("dt", {}, words), element("dd", {}, counts[state])))),
    steps.length
      ? table("Current steps, the longest first",
        ["Node", "Operation", "State", "Step", "For", "Conductor", "Deadline"],
        steps.map(each => [
          nodeLink(each), each.kind, badge(each.state), element("code", {}, each.step), age(each.since),
          [each.conductor || "-", each.takeovers > 0 && element("span.muted", {}, ` took over (${each.takeovers})`)], each.deadline_at ? new Date(each.deadline_at).toLocaleString() : "-",
        ]))
      : empty("No machine is being worked on."),
  ];
}

function queuesDrawn({ queues }) {
  if (!queues.length) return empty("No operation waits for a slot.");
  return queues.map(queue => element("div", {},
    element("p", {}, `${queue.queued} wait for one of ${queue.limit} slots `,
      element("span.muted", {}, `([conductor]max_concurrent_${queue.class}`,
        queue.conductor_group && ` of conductor group ${queue.conductor_group}`, ")"),
      ", the first since ", age(queue.oldest_at), "."),
    queue.operations.length > 0 && table(`Next of ${queue.class} ${queue.conductor_group || ""}`,
      ["Place", "Node", "Operation", "Requested for"],
      queue.operations.map(each => [each.place, nodeLink(each), each.kind, age(each.created_at)]))));
}

function failuresDrawn({ groups, nodes, complete }, by) {
  if (!groups.length) return empty("No node has a failure that stands.");
  return [
    element("p", {}, `${nodes} nodes have failed`,
      complete ? "." : "; these are the largest groups of the newest failures."),
    table("Failures, the largest group first",
      [...by.map(name => DISTINCTIONS[name]), "Nodes", "The newest"],
      groups.map(group => [
        ...by.map(name => group.values[name] ?? "-"),
        fleetLink(group.filter, group.nodes, group.nodes === 1 ? " node" : " nodes"),
        element("span.words", {}, nodeLink(group.example), ": ", group.example.message, " ", element("span.muted", {}, group.example.hint)),
      ])),
  ];
}

const stepsDrawn = ({ steps, operations }) => steps.length
  ? table(`Steps of the newest operations, at most ${operations}; the slowest first`,
    ["Step", "Mean", "Longest", "Runs", "Failed"],
    steps.map(each => [
      element("code", {}, each.step), duration(each.mean_seconds), duration(each.longest_seconds),
      each.runs, element(each.failed ? "span.bad" : "span", {}, each.failed),
    ]))
  : empty("No step has ended yet.");

// Check boxes of the values that distinguish groups; calls `changed` with the chosen ones.
function distinctions(chosen, changed) {
  const boxes = Object.entries(DISTINCTIONS).map(([name, words]) =>
    element("label.inline", {},
      element("input", { type: "checkbox", name, checked: chosen.includes(name), onchange: choose }), words));
  const set = element("fieldset.row", {}, element("legend", {}, "Group failures by"), boxes);
  function choose(event) {
    const names = [...set.querySelectorAll("input:checked")].map(each => each.name);
    if (names.length) changed(names);
    else event.target.checked = true; // one is the least
  }
  return set;
}

export const page = {
  title: "Operations", path: "/operations", key: "o",
  async show(root, { api, live, params, keep, signal }) {
    let by = (params.by || USUAL).split(",").filter(name => name in DISTINCTIONS);
    if (!by.length) by = USUAL.split(",");
    const state = liveness();
    const read = (name, query) => () => api.get(`operations/${name}`, query, signal);
    const failures = part("Failures",
      async () => ({ by, found: await api.get("operations/failures", { by: by.join() }, signal) }),
      shown => failuresDrawn(shown.found, shown.by), signal);
    const now = part("Now", read("current"), nowDrawn, signal);
    const queues = part("Waiting for a slot", read("queues"), queuesDrawn, signal);
    const slow = part("Slow steps", read("steps", { limit: 20 }), stepsDrawn, signal);
    root.append(
      element("div.row", {}, element("h1", {}, "Operations"), state.element), faultyConductors(api, signal),
      now, distinctions(by, names => { by = names; keep("/operations", { by: by.join() }); failures.renew(); }),
      failures, queues, slow);
    const active = () => Promise.all([now.renew(), queues.renew()]);
    const summaries = () => Promise.all([failures.renew(), slow.renew()]);
    const [soon, seldom] = [gathered(active, SOON, signal), gathered(summaries, SELDOM, signal)];
    const changed = () => { soon(); seldom(); };
    await live.subscribe({}, { onEvents: changed, onReset: changed, onState: state.show, signal });
    await Promise.all([active(), summaries()]);
    return ticking(root);
  },
};
