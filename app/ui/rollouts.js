// The rollouts: those that go on or wait for someone first, then those that have ended.

import { reporting } from "./dialogs.js";
import { drawn, element, empty, table } from "./dom.js";
import { facts, moment } from "./facts.js";
import { badge, part } from "./parts.js";
import { permissions } from "./permissions.js";
import { createRollout } from "./rollout_form.js";
import { age, repeat, ticking } from "./times.js";

const INTERVAL = 2000; // milliseconds between two reads; a rollout's own changes are no events
const LISTED = 100;

//: Count of a rollout -> colour of its part of the bar.
const PARTS = { succeeded: "stable", failed: "failed", running: "busy" };

// How far a rollout is: a bar with the nodes that succeeded, failed and are in progress, and their numbers.
export function progressOf(rollout) {
  const { nodes, succeeded, failed, running } = rollout;
  let start = 0;
  const rects = Object.entries(PARTS).map(([name, kind]) => {
    const width = nodes ? rollout[name] / nodes * 100 : 0;
    start += width;
    return drawn("rect", { class: kind, x: `${start - width}%`, width: `${width}%`, height: 10 });
  });
  return element("span.progress", {},
    drawn("svg", { class: "bar", "aria-hidden": true, width: 160, height: 10 }, rects), " ",
    `${succeeded} of ${nodes} succeeded`, failed > 0 && element("span.bad", {}, `, ${failed} failed`), running > 0 && `, ${running} in progress`);
}

// The state of a rollout as a badge; one that has ended with failures is no success.
export const stateOf = ({ state, failed }) => badge(state, state === "completed" ? (failed ? "failed" : "stable") : undefined);

const nameOf = rollout => rollout.description || `${rollout.target} of ${rollout.nodes} nodes`;

function listDrawn({ rollouts }) {
  if (!rollouts.length)
    return empty("There is no rollout. Select nodes of the fleet and *Roll out…*, or `ingot fleet run`.");
  const isOver = rollout => Boolean(rollout.finished_at);
  const sorted = [...rollouts].sort((left, right) => isOver(left) - isOver(right));
  return table("Rollouts", ["Rollout", "Verb", "State", "Wave", "Nodes", "By", "Begun", "Ended"], sorted.map(rollout => [
    element("a", { href: `#/rollouts/${rollout.uuid}` }, nameOf(rollout)), rollout.target, stateOf(rollout),
    `${rollout.wave} of ${rollout.waves}`, progressOf(rollout), rollout.user_name || "-", [age(rollout.created_at), " ago"],
    rollout.finished_at ? moment(rollout.finished_at) : "-",
  ]));
}

export const page = {
  title: "Rollouts", path: "/rollouts", key: "l", rule: "rollout:list",
  async show(root, { api, navigate, signal }) {
    const [release, may] = await Promise.all([facts(), permissions(api)]);
    const list = part("Rollouts", () => api.get("rollouts", { limit: LISTED }, signal), listDrawn, signal);
    const create = () => reporting(() => createRollout(api, release, { filters: {}, target: "" }, rollout => navigate(`/rollouts/${rollout.uuid}`)));
    root.append(element("div.row", {}, element("h1", {}, "Rollouts"),
      may("rollout:create") && element("button.primary", { type: "button", onclick: create }, "Roll out…")), list);
    repeat(INTERVAL, list.renew, signal);
    ticking(root, signal);
    await list.renew();
  },
};
