// The drain of a conductor: what an operator sees of it, and the button that begins or ends it.

import { notice, reporting } from "./dialogs.js";
import { element } from "./dom.js";
import { formDialog } from "./forms.js";
import { age } from "./times.js";

const REASON = { name: "reason", type: "string", maxLength: 255, description: "for other operators" };

// The number of nodes that no other conductor serves.
const dependentNodes = ({ ring }, name) => ring
  .filter(({ conductors }) => conductors.length === 1 && conductors[0] === name)
  .reduce((sum, { nodes }) => sum + nodes, 0);

// The age and the reason of a drain, or null.
export const drainOf = ({ drained_at: begin, drain_reason: reason }) =>
  begin && element("span.muted", {}, "for ", age(begin), reason && `: ${reason}`);

function askForReason(api, service, name, onChange) {
  const nodes = dependentNodes(service, name);
  return formDialog({ title: `Drain ${name}`, label: "Drain", kind: "danger", fields: [REASON], content: [
    element("p", {}, "It completes its running steps, and gets no new work, also after a restart. Other conductors take over the rest."),
    nodes > 0 && element("p.bad", {},
      `${nodes === 1 ? "1 node has" : `${nodes} nodes have`} no other conductor: their operations wait until it is undrained.`),
  ] }, async ({ reason = null }) => {
    await api.put(`conductors/${encodeURIComponent(name)}/drain`, { reason });
    notice(`${name} drains.`);
    onChange();
  });
}

const end = (api, name, onChange) => reporting(async () => {
  await api.delete(`conductors/${encodeURIComponent(name)}/drain`);
  notice(`${name} gets new work with its next heartbeat.`);
  onChange();
});

// Return the button. service: the answer about the service, with the conductor; onChange: called
// after a change.
export function drainButton(api, service, { hostname: name, drained_at: begin }, onChange) {
  return begin
    ? element("button.quiet", { type: "button", "aria-label": `Undrain ${name}`, onclick: () => end(api, name, onChange) }, "Undrain")
    : element("button.quiet", {
      type: "button", "aria-label": `Drain ${name}`, onclick: () => askForReason(api, service, name, onChange),
    }, "Drain…");
}
