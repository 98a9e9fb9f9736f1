// The state machine of nodes as a drawing: a row for each flow, a column for each kind of state.

import { drawn, element } from "./dom.js";

const KINDS = ["stable", "busy", "wait", "hold", "failed"];
const TITLES = { stable: "at rest", busy: "a conductor acts", wait: "the machine acts", hold: "an operator acts", failed: "failed" };
const WIDTH = 134, HEIGHT = 26, ACROSS = 176, DOWN = 40, TOP = 30;

// Return state -> { x, y }. A flow is a busy state, and the states of other kinds that it leads to.
function places(states) {
  const flows = Object.keys(states).filter(name => states[name].kind === "busy");
  const found = new Map();
  const put = (name, row) => found.set(name, { x: KINDS.indexOf(states[name].kind) * ACROSS + 4, y: TOP + row * DOWN });
  flows.forEach((flow, row) => {
    put(flow, row);
    for (const event of ["wait", "hold", "fail"]) {
      const to = states[flow].moves[event];
      if (to && states[to].kind !== "stable" && !found.has(to)) put(to, row);
    }
  });
  const resting = Object.keys(states).filter(name => !found.has(name));
  resting.forEach((name, at) => put(name, (at + 0.5) * flows.length / resting.length - 0.5));
  return { found, rows: flows.length };
}

function line(from, to, kind) {
  const right = to.x > from.x, same = to.x === from.x;
  const x1 = from.x + (right || same ? WIDTH : 0), x2 = to.x + (right ? 0 : WIDTH);
  const y1 = from.y + HEIGHT / 2, y2 = to.y + HEIGHT / 2;
  const bend = same ? 26 : (x2 - x1) / 2;
  return drawn("path", {
    class: kind, d: `M${x1} ${y1} C${x1 + bend} ${y1} ${same ? x2 + bend : x2 - bend} ${y2} ${x2} ${y2}`,
    "marker-end": kind === "next" ? "url(#arrow)" : null,
  });
}

// Return a function that draws the machine with a node in `state`, on its way to `target`.
export function machine(states) {
  const { found, rows } = places(states);
  return (state, target) => {
    const next = new Set(Object.values(states[state]?.moves || {}));
    const lines = Object.entries(states).flatMap(([name, { moves }]) =>
      [...new Set(Object.values(moves))].map(to => [name, to]));
    const kind = ([name]) => (name === state ? "next" : "other");
    lines.sort((one, other) => kind(other).localeCompare(kind(one))); // the important ones on top
    const words = [...next].join(", ");
    return element("div.scroll.machine", { tabindex: 0, role: "region", "aria-label": "State machine" },
      drawn("svg", {
        viewBox: `0 0 ${KINDS.length * ACROSS - ACROSS + WIDTH + 8} ${TOP + rows * DOWN}`, role: "img",
        "aria-label": `The node is ${state}; it may become ${words || "nothing else"}`,
      },
      drawn("defs", {}, drawn("marker", { id: "arrow", viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 7, markerHeight: 7, orient: "auto-start-reverse" },
        drawn("path", { class: "arrow", d: "M0 0L8 4L0 8z" }))),
      KINDS.map((each, at) => drawn("text", { class: "head", x: at * ACROSS + 4 + WIDTH / 2, y: 14 }, TITLES[each])),
      lines.map(each => line(found.get(each[0]), found.get(each[1]), kind(each))),
      [...found].map(([name, { x, y }]) => {
        const role = name === state ? "here" : next.has(name) ? "may" : "far";
        return drawn("g", { class: `${states[name].kind} ${role}${name === target ? " target" : ""}` },
          drawn("rect", { x, y, width: WIDTH, height: HEIGHT, rx: 7 }),
          drawn("text", { x: x + WIDTH / 2, y: y + 17 }, name));
      })));
  };
}

// What may follow a state, in words: a list of event and state.
export const following = (states, state) => element("p.muted.follow", {}, "May follow: ",
  Object.entries(states[state]?.moves || {}).map(([event, to], at) => [at ? " · " : "", `${event} → ${to}`]));
