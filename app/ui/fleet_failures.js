// The nodes that have failed, above the fleet: the newest first, with their errors and a retry of all.

import { element, replace } from "./dom.js";
import { badge, moment } from "./facts.js";
import { counted } from "./words.js";

const SHOWN = 5; // nodes

// Return { element, read(isShown) }; read() asks for the failures, and returns their number.
// onShow: shows all of them in the table. retry: button for all of them, if the caller may.
export function failedNodes(api, release, signal, onShow, retry) {
  const root = element("section.card.failures", { "aria-label": "Failed nodes", hidden: true });
  async function read(isShown) {
    const [{ nodes: count }, { nodes }] = await Promise.all([
      api.get("provision_states", { where: release.failed }, signal),
      api.get("nodes", {
        where: release.failed, fields: "uuid,name,provision_state,last_error,maintenance_reason,provision_updated_at",
        sort_key: "provision_updated_at", sort_dir: "desc", limit: SHOWN,
      }, signal),
    ]);
    root.hidden = !isShown || !count;
    const shown = JSON.stringify([count, nodes]);
    if (root.dataset.shown !== shown) {
      root.dataset.shown = shown; // unchanged buttons keep their focus
      replace(root,
        element("div.row", {}, element("h2", {}, `${counted(count, "node")} failed`),
          count > SHOWN && element("button", { type: "button", onclick: onShow }, "Show all"), retry),
        element("ul", {}, nodes.map(node => element("li", {},
          element("a", { href: `#/nodes/${node.uuid}` }, node.name || node.uuid), " ", badge(release, node.provision_state), " ",
          node.last_error || node.maintenance_reason || "", " ", element("span.muted", {}, moment(node.provision_updated_at))))));
    }
    return count;
  }
  return { element: root, read };
}
