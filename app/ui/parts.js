// Parts of a page that are read again and again, each with a heading and a state of its own.

import { download } from "./api.js";
import { reporting } from "./dialogs.js";
import { element, failure, replace } from "./dom.js";

// Make a part: a card whose content is `draw(document)`, for the document that `read()` returns.
// `part.renew()` reads it, and replaces the content only if the document has changed, so that the
// focus stays.
export function part(title, read, draw, signal) {
  const content = element("div", {}, element("p.empty", {}, "Loading…"));
  const card = element("section.card", { "aria-label": title }, element("h2", {}, title), content);
  let previousText = null, turns = 0, drawnOf = 0;
  card.renew = async () => {
    const turn = ++turns;
    const isOld = () => signal.aborted || turn < drawnOf; // the answer of a later read came first
    try {
      const newDocument = await read();
      if (isOld()) return;
      drawnOf = turn;
      const text = JSON.stringify(newDocument);
      if (text === previousText) return;
      previousText = text;
      keepingFocus(content, () => replace(content, draw(newDocument)));
    } catch (error) {
      if (isOld()) return;
      drawnOf = turn;
      previousText = null;
      replace(content, failure(error));
    }
  };
  return card;
}

// Replace the content, and give the focus back to the control at the same position.
function keepingFocus(content, make) {
  const controls = () => [...content.querySelectorAll("a, button, [tabindex]")];
  const index = controls().indexOf(document.activeElement);
  make();
  if (index >= 0) controls()[index]?.focus({ preventScroll: true });
}

// Return the indicator of the connection; `show(state)` takes the states of a subscription.
export function liveness() {
  const status = element("span", { "aria-live": "polite" });
  let lostAt = null;
  const show = state => {
    lostAt = state === "live" ? null : lostAt ?? new Date();
    status.className = lostAt ? "bad" : "live";
    status.textContent = lostAt ? `The connection is lost; trying again. What is shown is from before ${lostAt.toLocaleTimeString()}.` : "live";
  };
  return { element: status, show };
}

// A state as a badge, with its word. kind: its colour, if that is not the word's.
const KINDS = {
  running: "busy", waiting: "wait", held: "hold", queued: "wait", pending: "rest", failed: "failed", aborted: "failed",
  ok: "stable", warning: "wait", critical: "failed", paused: "hold", aborting: "wait",
  succeeded: "stable", success: "stable", failure: "failed", denied: "failed",
  alive: "stable", impeded: "failed", lost: "failed", stopped: "hold", draining: "hold", drained: "hold",
};
export const badge = (word, kind = KINDS[word] || "wait") => element(`span.badge.${kind}`, {}, word);

// A link to a node.
export const nodeLink = ({ node_uuid: uuid, node_name: name }) =>
  element("a", { href: `#/nodes/${uuid}` }, name || uuid);

// A link to the nodes of a filter.
export const fleetLink = (filter, ...content) =>
  element("a", { href: `#/fleet?${new URLSearchParams(filter)}` }, content);

// A link that downloads a file of the API with the credentials of the page.
export const downloadLink = (path, name, text) => element("a", {
  href: `v1/${path}`, download: name,
  onclick: event => {
    event.preventDefault();
    reporting(() => download(path, name));
  },
}, text);
