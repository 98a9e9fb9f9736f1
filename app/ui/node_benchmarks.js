// Numbers that steps have measured on a node, a row for each metric with its trend.

import { drawn, element, empty, table } from "./dom.js";
import { moment } from "./facts.js";

//: Width and height of a trend, in pixels, and numbers in it.
const WIDTH = 120, HEIGHT = 20, MOST = 60;

const shown = (value, unit) => [Number(value.toPrecision(6)), unit].filter(part => part !== null).join(" ");

// A line through numbers, the oldest first, from their least to their most.
function trend(values) {
  const least = Math.min(...values), range = Math.max(...values) - least || 1;
  const points = values.map((value, index) => {
    const x = 1 + index * (WIDTH - 2) / Math.max(values.length - 1, 1);
    return `${x.toFixed(1)},${(HEIGHT - 1 - (value - least) / range * (HEIGHT - 2)).toFixed(1)}`;
  });
  return drawn("svg", { class: "trend", "aria-hidden": true, width: WIDTH, height: HEIGHT },
    drawn("polyline", { points: points.join(" ") }));
}

function row(numbers) {
  const newest = numbers[0], values = numbers.slice(0, MOST).map(number => number.value).reverse();
  return [
    newest.metric, shown(newest.value, newest.unit), values.length > 1 && trend(values),
    `${shown(Math.min(...values), null)} to ${shown(Math.max(...values), null)} (${values.length})`,
    element("code", {}, newest.step), moment(newest.recorded_at),
  ];
}

// Return what the tab shows.
export async function benchmarksOf(api, ident) {
  const { benchmarks } = await api.get(`nodes/${ident}/benchmarks`, { limit: 1000 });
  if (!benchmarks.length) return empty("No step has measured numbers on this node. Burn-in and benchmarks are steps of your own hardware manager.");
  const metrics = new Map();
  for (const number of benchmarks) metrics.set(number.metric, [...metrics.get(number.metric) || [], number]);
  return table("Measured numbers", ["metric", "newest", "trend", "range", "step", "when"],
    [...metrics.keys()].sort().map(metric => row(metrics.get(metric))));
}
