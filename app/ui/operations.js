// Operations of the whole fleet: standing failures, current steps, admission queues, slow steps.

import { element, empty, table } from "./dom.js";
import { duration } from "./facts.js";
import { choices } from "./forms.js";
import { gathered } from "./live.js";
import { badge, fleetLink, liveness, nodeLink, part } from "./parts.js";
import { faultyConductors } from "./faulty_conductors.js";
import { age, ticking } from "./times.js";

// Milliseconds between two reads during changes: of the active operations, and of the summaries.
const SOON = 1000, SELDOM = 10_000;
//: Value that may distinguish groups of failures -> its heading.
const DISTINCTIONS = {
  code: "Code", step: "Step", resource_class: "Resource class", driver: "Driver",
  conductor_group: "Conductor group", shard: "Shard", chassis_uuid: "Chassis",
};
const USUAL = "code,step";
//: State in the counts -> its text.
const STATES = {
  running: "running", waiting: "waiting for the machine", held: "held", queued: "sent to a conductor",
  admission: "waiting for a slot",
};

function nowDrawn({ counts, steps }) {
  return [
    element("dl.row.tallies", {}, Object.entries(STATES).map(([state, label]) =>
      element("div", { "data-state": state }, element("dt", {}, label), element("dd", {}, counts[state])))),
    steps.length
      ? table("Current steps, the longest first",
        ["Node", "Operation", "State", "Step", "For", "Conductor", "Deadline"],
        steps.map(step => [
          nodeLink(step), step.kind, badge(step.state), element("code", {}, step.step), age(step.since),
          [step.conductor || "-", step.takeovers > 0 && element("span.muted", {}, ` took over (${step.takeovers})`)], step.deadline_at ? new Date(step.deadline_at).toLocaleString() : "-",
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
      queue.operations.map(operation => [operation.place, nodeLink(operation), operation.kind, age(operation.created_at)]))));
}

function failuresDrawn({ groups, nodes, complete }, dimensions) {
  if (!groups.length) return empty("No node has a failure that stands.");
  return [
    element("p", {}, `${nodes} nodes have failed`,
      complete ? "." : "; these are the largest groups of the newest failures."),
    table("Failures, the largest group first",
      [...dimensions.map(name => DISTINCTIONS[name]), "Nodes", "The newest"],
      groups.map(group => [
        ...dimensions.map(name => group.values[name] ?? "-"),
        fleetLink(group.filter, group.nodes, group.nodes === 1 ? " node" : " nodes"),
        element("span.words", {}, nodeLink(group.example), ": ", group.example.message, " ", element("span.muted", {}, group.example.hint)),
      ])),
  ];
}

const stepsDrawn = ({ steps, operations }) => steps.length
  ? table(`Steps of the newest operations, at most ${operations}; the slowest first`,
    ["Step", "Mean", "Longest", "Runs", "Failed"],
    steps.map(step => [
      element("code", {}, step.step), duration(step.mean_seconds), duration(step.longest_seconds),
      step.runs, element(step.failed ? "span.bad" : "span", {}, step.failed),
    ]))
  : empty("No step has ended yet.");

// Check boxes of the values that distinguish groups; calls `changed` with the selected names.
const distinctions = (selection, changed) => element("fieldset.row", {},
  element("legend", {}, "Group failures by"), choices(DISTINCTIONS, selection, changed));

export const page = {
  title: "Operations", path: "/operations", key: "o", rule: "operation:list",
  async show(root, { api, live, params, keep, signal }) {
    let dimensions = (params.by || USUAL).split(",").filter(name => name in DISTINCTIONS);
    if (!dimensions.length) dimensions = USUAL.split(",");
    const state = liveness();
    const readSummary = (name, query) => () => api.get(`operations/${name}`, query, signal);
    const failures = part("Failures",
      async () => ({ by: dimensions, found: await api.get("operations/failures", { by: dimensions.join() }, signal) }),
      summary => failuresDrawn(summary.found, summary.by), signal);
    const now = part("Now", readSummary("current"), nowDrawn, signal);
    const queues = part("Waiting for a slot", readSummary("queues"), queuesDrawn, signal);
    const slow = part("Slow steps", readSummary("steps", { limit: 20 }), stepsDrawn, signal);
    root.append(
      element("div.row", {}, element("h1", {}, "Operations"), state.element), faultyConductors(api, signal),
      now, distinctions(dimensions, names => { dimensions = names; keep("/operations", { by: dimensions.join() }); failures.renew(); }),
      failures, queues, slow);
    const renewActive = () => Promise.all([now.renew(), queues.renew()]);
    const summaries = () => Promise.all([failures.renew(), slow.renew()]);
    const [renewActiveSoon, renewSummariesLater] = [gathered(renewActive, SOON, signal), gathered(summaries, SELDOM, signal)];
    const changed = () => { renewActiveSoon(); renewSummariesLater(); };
    await live.subscribe({}, { onEvents: changed, onReset: changed, onState: state.show, signal });
    ticking(root, signal);
    await Promise.all([renewActive(), summaries()]);
  },
};
