// Parts of a page that are read again and again, each with a heading and a state of its own.

import { element, failure, replace } from "./dom.js";

// Make a part: a card whose content `drawn(document)` is made of the document that `read()`
// returns. `part.renew()` reads it; the content is made anew only if the document has changed, so
// that the focus stays where it is.
export function part(title, read, drawn, signal) {
  const content = element("div", {}, element("p.empty", {}, "Loading…"));
  const card = element("section.card", { "aria-label": title }, element("h2", {}, title), content);
  let before = null, asked = 0, drawnOf = 0;
  card.renew = async () => {
    const turn = ++asked;
    const isOld = () => signal.aborted || turn < drawnOf; // a later reading was answered sooner
    try {
      const found = await read();
      if (isOld()) return;
      drawnOf = turn;
      const text = JSON.stringify(found);
      if (text === before) return;
      before = text;
      keepingFocus(content, () => replace(content, drawn(found)));
    } catch (error) {
      if (isOld()) return;
      drawnOf = turn;
      before = null;
      replace(content, failure(error));
    }
  };
  return card;
}

// Make the content anew, and give the focus back to the control at its place.
function keepingFocus(content, make) {
  const controls = () => [...content.querySelectorAll("a, button, [tabindex]")];
  const at = controls().indexOf(document.activeElement);
  make();
  if (at >= 0) controls()[at]?.focus({ preventScroll: true });
}

// Whether changes are followed, in words; `show(state)` takes the states of a subscription.
export function liveness() {
  const shown = element("span", { "aria-live": "polite" });
  const show = state => {
    shown.className = state === "live" ? "live" : "bad";
    shown.textContent = state === "live" ? "live" : "The connection is lost; trying again.";
  };
  return { element: shown, show };
}

// A state as a badge, with its word.
const KINDS = {
  running: "busy", waiting: "wait", held: "hold", queued: "wait", failed: "failed", aborted: "failed",
  ok: "stable", warning: "wait", critical: "failed",
  succeeded: "stable", alive: "stable", impeded: "failed", lost: "failed", stopped: "hold",
};
export const badge = word => element(`span.badge.${KINDS[word] || "wait"}`, {}, word);

// A link to a node.
export const nodeLink = ({ node_uuid: uuid, node_name: name }) =>
  element("a", { href: `#/nodes/${uuid}` }, name || uuid);

// A link to the nodes of a filter.
export const fleetLink = (filter, ...content) =>
  element("a", { href: `#/fleet?${new URLSearchParams(filter)}` }, content);
