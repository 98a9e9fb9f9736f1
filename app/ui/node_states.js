// The state machine of nodes as a drawing: a row for each flow, a column for each kind of state.

import { drawn, element } from "./dom.js";

const KINDS = ["stable", "busy", "wait", "hold", "failed"];
const TITLES = { stable: "at rest", busy: "a conductor acts", wait: "the machine acts", hold: "an operator acts", failed: "failed" };
const WIDTH = 134, HEIGHT = 26, ACROSS = 176, DOWN = 40, TOP = 30;

// Return state -> { x, y }. A flow is a busy state, and the states of other kinds that it leads to.
function places(states) {
  const flows = Object.keys(states).filter(name => states[name].kind === "busy");
  const positions = new Map();
  const put = (name, row) => positions.set(name, { x: KINDS.indexOf(states[name].kind) * ACROSS + 4, y: TOP + row * DOWN });
  flows.forEach((flow, row) => {
    put(flow, row);
    for (const event of ["wait", "hold", "fail"]) {
      const target = states[flow].moves[event];
      if (target && states[target].kind !== "stable" && !positions.has(target)) put(target, row);
    }
  });
  const resting = Object.keys(states).filter(name => !positions.has(name));
  resting.forEach((name, index) => put(name, (index + 0.5) * flows.length / resting.length - 0.5));
  return { positions, rows: flows.length };
}

function line(from, target, kind) {
  const isRightward = target.x > from.x, isSameColumn = target.x === from.x;
  const x1 = from.x + (isRightward || isSameColumn ? WIDTH : 0), x2 = target.x + (isRightward ? 0 : WIDTH);
  const y1 = from.y + HEIGHT / 2, y2 = target.y + HEIGHT / 2;
  const bend = isSameColumn ? 26 : (x2 - x1) / 2;
  return drawn("path", {
    class: kind, d: `M${x1} ${y1} C${x1 + bend} ${y1} ${isSameColumn ? x2 + bend : x2 - bend} ${y2} ${x2} ${y2}`,
    "marker-end": kind === "next" ? "url(#arrow)" : null,
  });
}

// Return a function that draws the machine with a node in `state`, on its way to `target`.
export function machine(states) {
  const { positions, rows } = places(states);
  return (state, target) => {
    const next = new Set(Object.values(states[state]?.moves || {}));
    const lines = Object.entries(states).flatMap(([name, { moves }]) =>
      [...new Set(Object.values(moves))].map(target => [name, target]));
    const kind = ([name]) => (name === state ? "next" : "other");
    lines.sort((left, right) => kind(right).localeCompare(kind(left))); // the next transitions on top
    const nextNames = [...next].join(", ");
    return element("div.scroll.machine", { tabindex: 0, role: "region", "aria-label": "State machine" },
      drawn("svg", {
        viewBox: `0 0 ${KINDS.length * ACROSS - ACROSS + WIDTH + 8} ${TOP + rows * DOWN}`, role: "img",
        "aria-label": `The node is ${state}; it may become ${nextNames || "nothing else"}`,
      },
      drawn("defs", {}, drawn("marker", { id: "arrow", viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 7, markerHeight: 7, orient: "auto-start-reverse" },
        drawn("path", { class: "arrow", d: "M0 0L8 4L0 8z" }))),
      KINDS.map((column, index) => drawn("text", { class: "head", x: index * ACROSS + 4 + WIDTH / 2, y: 14 }, TITLES[column])),
      lines.map(move => line(positions.get(move[0]), positions.get(move[1]), kind(move))),
      [...positions].map(([name, { x, y }]) => {
        const role = name === state ? "here" : next.has(name) ? "may" : "far";
        return drawn("g", { class: `${states[name].kind} ${role}${name === target ? " target" : ""}` },
          drawn("rect", { x, y, width: WIDTH, height: HEIGHT, rx: 7 }),
          drawn("text", { x: x + WIDTH / 2, y: y + 17 }, name));
      })));
  };
}

// The transitions from a state as text: a list of event and state.
export const following = (states, state) => element("p.muted.follow", {}, "May follow: ",
  Object.entries(states[state]?.moves || {}).map(([event, target], index) => [index ? " · " : "", `${event} → ${target}`]));
