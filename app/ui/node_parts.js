// Further facts of a node, each read when its tab is opened.

import { consoleOf } from "./console.js";
import { element, empty, failure, replace, table } from "./dom.js";
import { moment } from "./facts.js";
import { badge } from "./parts.js";

const pre = value => element("pre", { tabindex: 0 }, JSON.stringify(value, null, 2));
const text = value => (value === null || value === undefined ? "" : typeof value === "object" ? JSON.stringify(value) : String(value));
const rows = (caption, heads, items, otherwise) =>
  items.length ? table(caption, heads, items.map(item => heads.map(name => text(item[name])))) : empty(otherwise);

//: Title -> a function of the API and the node that returns what the tab shows.
const PARTS = {
  History: async (api, at) => {
    const { history } = await api.get(`nodes/${at}/history/`, { detail: true, sort_dir: "desc", limit: 100 });
    return history.length
      ? table("History", ["when", "severity", "event", "by"], history.map(each =>
        [moment(each.created_at), each.severity, element("span.words", {}, each.event),
          [each.user, each.conductor].filter(Boolean).map((name, at) => [at ? " · " : "", element("code", {}, name)])]))
      : empty("Nothing has happened to this node yet.");
  },
  Hardware: async (api, at) => {
    const { inventory } = await api.get(`nodes/${at}/inventory`);
    const { disks = [], interfaces = [], cpu, memory, system_vendor: vendor } = inventory;
    return [
      element("dl.facts", {}, [["vendor", vendor], ["CPU", cpu], ["memory", memory]].filter(([, value]) => value)
        .map(([name, value]) => [element("dt", {}, name), element("dd", {}, text(value))])),
      disks.length > 0 && rows("Disks", ["name", "size", "model", "serial"], disks),
      interfaces.length > 0 && rows("Interfaces", ["name", "mac_address", "ipv4_address", "has_carrier"], interfaces),
    ];
  },
  Ports: async (api, at) => rows("Ports", ["address", "pxe_enabled", "physical_network", "local_link_connection", "uuid"],
    (await api.get(`nodes/${at}/ports/detail`)).ports, "The node has no ports. A port is a network interface that the machine boots from."),
  BIOS: async (api, at) => rows("BIOS settings", ["name", "value"], (await api.get(`nodes/${at}/bios`)).bios, "No BIOS settings are known."),
  Firmware: async (api, at) => rows("Firmware", ["component", "current_version", "initial_version"],
    (await api.get(`nodes/${at}/firmware`)).firmware, "No firmware is known."),
  Sensors: async (api, at) => {
    try {
      const { sensors } = await api.get(`nodes/${at}/management/sensors`);
      return table("Sensors", ["sensor", "kind", "reading", "health"], sensors.map(each =>
        [each.name, each.kind, each.reading === null ? "none" : `${each.reading} ${each.unit}`, badge(each.health)]));
    } catch (error) {
      if (error.status !== 400) throw error;
      return empty(`There are no readings: ${error.message}. A BMC with Redfish lists temperatures, fans and power.`);
    }
  },
  Traits: async (api, at) => rows("Traits", ["trait"], (await api.get(`nodes/${at}/traits`)).traits.map(trait => ({ trait })), "The node has no traits."),
  Console: consoleOf,
  Validation: async (api, at) => {
    const found = await api.get(`nodes/${at}/validate`);
    return table("Interfaces", ["interface", "usable", "reason"], Object.entries(found)
      .map(([name, each]) => [name, each.result ? "yes" : "no", each.reason || ""]));
  },
  Fields: async (api, at) => pre(await api.get(`nodes/${at}`)),
};

// Return the tabs of a node.
export function parts(api, uuid, signal) {
  const panel = element("div", { role: "tabpanel", id: "part", tabindex: 0, "aria-label": "Facts" });
  const tabs = Object.keys(PARTS).map(name => element("button", {
    type: "button", role: "tab", "aria-controls": "part", "aria-selected": "false", onclick: () => open(name),
  }, name));
  let opened = null;

  // Show a tab. again: what it shows stays until it is read.
  async function open(name, again = false) {
    opened = name;
    for (const tab of tabs) tab.setAttribute("aria-selected", String(tab.textContent === name));
    panel.setAttribute("aria-label", name);
    if (!again) replace(panel, element("p.muted", {}, "Reading…"));
    let found;
    try {
      found = await PARTS[name](api, uuid, signal);
    } catch (error) {
      found = error.status === 404 ? empty(error.message) : failure(error);
    }
    if (opened === name && !signal.aborted) replace(panel, [found].flat());
  }

  open("History");
  return {
    element: element("section.card", { "aria-label": "Facts of the node" }, element("div.tabs", { role: "tablist", "aria-label": "Facts" }, tabs), panel),
    again: () => { if (opened === "History") open(opened, true); },
  };
}
