// What goes on by itself while a page is open: repeated reads, and ages.

import { element } from "./dom.js";
import { duration, since } from "./facts.js";

const AGES = "time[data-since]";

const sinceText = time => duration(Math.max(0, since(time)));

// The age of a time of the API, in an element that `ticking` renews; "-" without a time.
export const age = time =>
  time ? element("time", { datetime: time, title: time, "data-since": time }, sinceText(time)) : "-";

// Call `action` at an interval of milliseconds while the page is visible, until `signal` aborts.
export function repeat(milliseconds, action, signal) {
  if (signal.aborted) return;
  const timer = setInterval(() => document.hidden || action(), milliseconds);
  signal.addEventListener("abort", () => clearInterval(timer));
}

// Renew the ages below an element once a second, until `signal` aborts.
export const ticking = (root, signal) => repeat(1000, () => {
  for (const timeElement of root.querySelectorAll(AGES)) timeElement.textContent = sinceText(timeElement.dataset.since);
}, signal);
