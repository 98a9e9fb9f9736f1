// States, verbs and fields of this release, and words for them.

import { file } from "./api.js";
import { element } from "./dom.js";

export const facts = () => file("facts.json");

//: States of rest in which a machine is of use; in the others it waits for an operator.
const USEFUL = new Set(["available", "active"]);

// The colour of a state: that of its kind, but no green for machines that are of no use yet.
export function colourOf(release, state) {
  const kind = state === "error" ? "failed" : release.states[state]?.kind || "stable";
  return kind === "stable" && !USEFUL.has(state) ? "rest" : kind;
}

// A state in its colour.
export const badge = (release, state) => element(`span.badge.${colourOf(release, state)}`, {}, state || "none");

// Return the verbs of a state by the state machine alone: a node may refuse them.
export const verbsOf = (release, state) => Object.keys(release.verbs).filter(verb =>
  verb !== "undeploy" && release.states[state].kind !== "busy" && release.verbs[verb].event in release.states[state].moves);

const UNITS = [["d", 86400], ["h", 3600], ["min", 60]];

// A duration in words of at most two units.
export function duration(seconds) {
  if (seconds < 60) return `${seconds < 10 ? Math.round(seconds * 10) / 10 : Math.round(seconds)} s`;
  const index = UNITS.findIndex(([, size]) => seconds >= size);
  const [unit, size] = UNITS[index];
  const [smaller, part] = UNITS[index + 1] || ["s", 1];
  const remainder = Math.floor(seconds % size / part);
  return `${Math.floor(seconds / size)} ${unit}${remainder ? ` ${remainder} ${smaller}` : ""}`;
}

export const since = time => (Date.now() - new Date(time)) / 1000;

// A moment: how long ago, or in how long, with the whole time as its title.
export function moment(time) {
  if (!time) return "";
  const age = since(time);
  const text = age >= 0 ? `${duration(age)} ago` : `in ${duration(-age)}`;
  return element("time", { datetime: time, title: new Date(time).toLocaleString() }, text);
}
