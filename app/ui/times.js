// Ages that go on by themselves.

import { element } from "./dom.js";
import { duration, since } from "./facts.js";

const AGES = "time[data-since]";

const sinceText = time => duration(Math.max(0, since(time)));

// The age of a time of the API, in an element that `ticking` renews; "-" without a time.
export const age = time =>
  time ? element("time", { datetime: time, title: time, "data-since": time }, sinceText(time)) : "-";

// Renew the ages below an element once a second; return a function that ends it.
export function ticking(root) {
  const timer = setInterval(() => {
    for (const timeElement of root.querySelectorAll(AGES)) timeElement.textContent = sinceText(timeElement.dataset.since);
  }, 1000);
  return () => clearInterval(timer);
}
