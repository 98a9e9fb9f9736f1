// A rollout: what it waits for, its waves and failures, and its controls.

import { dialog, reporting } from "./dialogs.js";
import { element, empty, factList, replace, table } from "./dom.js";
import { moment } from "./facts.js";
import { badge, nodeLink, part } from "./parts.js";
import { permissions } from "./permissions.js";
import { progressOf, stateOf } from "./rollouts.js";
import { repeat, ticking } from "./times.js";

const INTERVAL = 2000; // milliseconds between two reads
const NODES = 200; // of the table
const MOST_RETRIED = 100; // nodes of an expression

//: State -> the requests that it takes: [target, label, what it does, kind].
const PAUSE = ["pause", "Pause", "No node is started any more; operations in progress go on, and their results are recorded.", ""];
const RESUME = ["resume", "Resume", "It goes on. The failures so far are accepted, and the error budget counts from zero.", "primary"];
const ABORT = ["abort", "Abort", "No node is started any more. It ends with the operations in progress, which are not interrupted.", "danger"];
const REQUESTS = { running: [PAUSE, ABORT], paused: [RESUME, ABORT] };

//: A window as on the command line: cron expression, duration and time zone.
const windowOf = ({ cron, minutes, zone }) => `${cron}, ${minutes} minutes, ${zone}`;

function factsDrawn(rollout) {
  const { windows = [], ...limits } = rollout.strategy;
  const strategy = Object.entries(limits).filter(([, value]) => value !== null && value !== "");
  const filters = Object.entries(rollout.filters);
  const failures = Object.entries(rollout.failures);
  const rows = [
    ["progress", progressOf(rollout)], ["wave", `${rollout.wave} of ${rollout.waves}${rollout.wave <= rollout.canary_waves ? " (canary)" : ""}`],
    ["failures", failures.length > 0 && failures.map(([code, count], index) => [index ? ", " : "", `${count} `, element("code", {}, code)])],
    ["nodes", filters.length ? filters.map(([name, value]) => element("code", {}, `${name === "where" ? "" : `${name} = `}${value} `)) : "all"],
    ["strategy", strategy.map(([name, value]) => `${name.replaceAll("_", " ")} ${value}`).join(", ")],
    ["windows", windows.length > 0 && windows.map(windowOf).join("; ")],
    ["by", rollout.user_name], ["begun", moment(rollout.created_at)], ["ended", rollout.finished_at && moment(rollout.finished_at)],
  ];
  return [
    element("p.summary", {}, rollout.summary),
    factList(rows),
  ];
}

const nodesDrawn = ({ nodes }) => nodes.length
  ? table("Nodes of the rollout, by waves", ["Node", "Wave", "Group", "State", "Code", "Error", "Ended"], nodes.map(node => [
    nodeLink(node), node.wave, node.group || "-", badge(node.state), node.code ? element("code", {}, node.code) : "-",
    element("span.words", {}, node.error || ""), node.finished_at ? moment(node.finished_at) : "-",
  ]))
  : empty("No node is in this state.");

export const page = {
  title: "Rollout", path: "/rollouts/:id", key: null,
  async show(root, { api, params, keep, signal }) {
    const may = await permissions(api);
    const path = `rollouts/${encodeURIComponent(params.id)}`;
    let rollout = await api.get(path, {}, signal), state = params.state || "";
    const head = element("div.row");
    const about = part("Progress", async () => { rollout = await api.get(path, {}, signal); return rollout; }, document_ => {
      showHead();
      return factsDrawn(document_);
    }, signal);
    const members = part("Nodes", () => api.get(`${path}/nodes`, { state: state || null, limit: NODES }, signal), nodesDrawn, signal);
    const filter = element("label.inline", {}, "State", element("select", {
      onchange: event => { state = event.target.value; keep(`/rollouts/${params.id}`, { state }); members.renew(); },
    }, ["", "pending", "running", "succeeded", "failed"].map(name => element("option", { value: name, selected: name === state }, name || "all"))));

    const request = ([target, label, explanation, kind]) => element(`button${kind ? `.${kind}` : ""}`, {
      type: "button",
      onclick: () => dialog(`${label} the rollout`, element("p", {}, explanation), [{
        label: `${label} it`, kind: kind || "primary",
        act: async () => {
          await reporting(() => api.put(`${path}/states`, { target }));
          await renew();
        },
      }]),
    }, label);

    // Show the failed nodes in the fleet, where they can be retried.
    async function showFailed() {
      const { nodes } = await api.get(`${path}/nodes`, { state: "failed", limit: MOST_RETRIED }, signal);
      location.hash = `#/fleet?${new URLSearchParams({ where: `uuid in (${nodes.map(node => node.node_uuid).join(",")})` })}`;
    }

    function showHead() {
      const text = JSON.stringify([rollout.state, rollout.failed > 0]);
      if (head.dataset.shown === text) return;
      head.dataset.shown = text; // unchanged buttons keep their focus
      replace(head, element("h1", {}, rollout.description || `Rollout of ${rollout.target}`), stateOf(rollout),
        may("rollout:update") && (REQUESTS[rollout.state] || []).map(request),
        rollout.failed > 0 && element("button", { type: "button", onclick: () => reporting(showFailed) }, "Show the failed nodes"));
    }

    const renew = () => Promise.all([about.renew(), members.renew()]);
    root.append(head, about, filter, members);
    repeat(INTERVAL, () => rollout.finished_at || renew(), signal);
    ticking(root, signal);
    await renew();
  },
};
