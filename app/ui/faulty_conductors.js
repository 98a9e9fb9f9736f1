// Conductors that are lost or impeded, above a page: the reason, and what happens to their work.

import { element, replace } from "./dom.js";
import { badge } from "./parts.js";
import { repeat } from "./times.js";

const INTERVAL = 5000; // milliseconds between two reads; a heartbeat that is missing is no event

const counted = (number, verb) => (number === 1 ? `1 operation ${verb}s` : `${number} operations ${verb}`);

// Sentences: what happens to the operations of a conductor.
function work({ state, operations, waiting, successors }) {
  if (!successors) {
    return [
      "No other conductor is alive in its group: new work stands still",
      operations + waiting ? `, and so do ${operations + waiting} of its operations.` : ".",
    ];
  }
  return [
    operations > 0 && state === "lost" && `${counted(operations, "wait")} for a takeover, which comes within seconds. `,
    operations > 0 && state !== "lost" && `${counted(operations, "end")} a step there, or at its deadline. `,
    waiting > 0 && `${counted(waiting, "wait")} for a machine, a person or a slot: another conductor goes on. `,
    operations + waiting === 0 && "None of its operations is left. ", "Other conductors get all new work.",
  ];
}

// An element that shows them as long as there are some. A read that fails changes nothing: the page says so elsewhere.
export function faultyConductors(api, signal) {
  const root = element("section", { "aria-label": "Conductors at fault", "aria-live": "polite", hidden: true });
  const read = async () => {
    try {
      const { conductors } = await api.get("operations/conductors", {}, signal);
      root.hidden = !conductors.length;
      replace(root, conductors.map(each => element("p.failure", { "data-conductor": each.hostname },
        element("code", {}, each.hostname), " ", badge(each.state), ` ${each.reason}. `, work(each))));
    } catch { /* see above */ }
  };
  repeat(INTERVAL, read, signal);
  read();
  return root;
}
