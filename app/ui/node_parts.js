// Further facts of a node, each read when its tab is opened.

import { consoleOf } from "./console.js";
import { element, empty, factList, failure, replace, table } from "./dom.js";
import { moment } from "./facts.js";
import { benchmarksOf } from "./node_benchmarks.js";
import { badge, downloadLink } from "./parts.js";

const pre = value => element("pre", { tabindex: 0 }, JSON.stringify(value, null, 2));
const text = value => (value === null || value === undefined ? "" : typeof value === "object" ? JSON.stringify(value) : String(value));
const rows = (caption, heads, items, otherwise) =>
  items.length ? table(caption, heads, items.map(item => heads.map(name => text(item[name])))) : empty(otherwise);

//: Tab -> the rule of the policy without which it is not offered.
const RULES = {
  History: "node:history:get", Hardware: "node:inventory:get", Ports: "port:list", BIOS: "node:bios:get",
  Firmware: "node:firmware:get", Sensors: "node:get_sensors", Benchmarks: "node:benchmarks:get", Traits: "node:traits:list", "Agent logs": "node:agent_logs:get",
  Console: "node:get_console", Validation: "node:validate", Fields: "node:get",
};

//: Tab -> a function of the API and the node that returns what it shows.
const PARTS = {
  History: async (api, ident) => {
    const { history } = await api.get(`nodes/${ident}/history/`, { detail: true, sort_dir: "desc", limit: 100 });
    return history.length
      ? table("History", ["when", "severity", "event", "by"], history.map(entry =>
        [moment(entry.created_at), entry.severity, element("span.words", {}, entry.event),
          [entry.user, entry.conductor].filter(Boolean).map((name, index) => [index ? " · " : "", element("code", {}, name)])]))
      : empty("Nothing has happened to this node yet.");
  },
  Hardware: async (api, ident) => {
    const { inventory } = await api.get(`nodes/${ident}/inventory`);
    const { disks = [], interfaces = [], cpu, memory, system_vendor: vendor } = inventory;
    return [
      factList([["vendor", vendor], ["CPU", cpu], ["memory", memory]].map(([name, value]) => [name, value && text(value)])),
      disks.length > 0 && rows("Disks", ["name", "size", "model", "serial"], disks),
      interfaces.length > 0 && rows("Interfaces", ["name", "mac_address", "ipv4_address", "has_carrier"], interfaces),
    ];
  },
  Ports: async (api, ident) => rows("Ports", ["address", "pxe_enabled", "physical_network", "local_link_connection", "uuid"],
    (await api.get(`nodes/${ident}/ports/detail`)).ports, "The node has no ports. A port is a network interface that the machine boots from."),
  BIOS: async (api, ident) => rows("BIOS settings", ["name", "value"], (await api.get(`nodes/${ident}/bios`)).bios, "No BIOS settings are known."),
  Firmware: async (api, ident) => rows("Firmware", ["component", "current_version", "initial_version"],
    (await api.get(`nodes/${ident}/firmware`)).firmware, "No firmware is known."),
  Sensors: async (api, ident) => {
    try {
      const { sensors } = await api.get(`nodes/${ident}/management/sensors`);
      return table("Sensors", ["sensor", "kind", "reading", "health"], sensors.map(sensor =>
        [sensor.name, sensor.kind, sensor.reading === null ? "none" : `${sensor.reading} ${sensor.unit}`, badge(sensor.health)]));
    } catch (error) {
      if (error.status !== 400) throw error;
      return empty(`There are no readings: ${error.message}. A BMC with Redfish lists temperatures, fans and power.`);
    }
  },
  Benchmarks: benchmarksOf,
  Traits: async (api, ident) => rows("Traits", ["trait"], (await api.get(`nodes/${ident}/traits`)).traits.map(trait => ({ trait })), "The node has no traits."),
  "Agent logs": async (api, ident) => {
    const { "agent-logs": logs } = await api.get(`nodes/${ident}/agent-logs`);
    return logs.length
      ? table("Kept logs of the agent", ["operation", "kept", "by", "archive"], logs.map(log => [
        log.kind, moment(log.kept_at), element("code", {}, log.conductor),
        downloadLink(`nodes/${ident}/agent-logs/${encodeURIComponent(log.name)}`, log.name, log.name)]))
      : empty("No log of the agent is kept. Operations keep one as `[agent]deploy_logs_collect` demands.");
  },
  Console: consoleOf,
  Validation: async (api, ident) => {
    const interfaces = await api.get(`nodes/${ident}/validate`);
    return table("Interfaces", ["interface", "usable", "reason"], Object.entries(interfaces)
      .map(([name, check]) => [name, check.result ? "yes" : "no", check.reason || ""]));
  },
  Fields: async (api, ident) => pre(await api.get(`nodes/${ident}`)),
};

//: Tabs that take the whole width of the page.
const WIDE = new Set(["Hardware", "Benchmarks", "Console", "Fields"]);

// Return the tabs of a node that the caller may open. onWide(isWide) is called when a tab is opened.
export function parts(api, uuid, { signal, may, onWide }) {
  const panel = element("div", { role: "tabpanel", id: "part", tabindex: 0, "aria-label": "Facts" });
  const names = Object.keys(PARTS).filter(name => may(RULES[name]));
  const tabs = names.map(name => element("button", {
    type: "button", role: "tab", "aria-controls": "part", "aria-selected": "false", onclick: () => open(name),
  }, name));
  let openTab = null;

  // Show a tab. isReload: keep the present content until the new one is read.
  async function open(name, isReload = false) {
    openTab = name;
    onWide(WIDE.has(name));
    for (const tab of tabs) tab.setAttribute("aria-selected", String(tab.textContent === name));
    panel.setAttribute("aria-label", name);
    if (!isReload) replace(panel, element("p.muted", {}, "Reading…"));
    let content;
    try {
      content = await PARTS[name](api, uuid, signal);
    } catch (error) {
      content = error.status === 404 ? empty(error.message) : failure(error);
    }
    if (openTab === name && !signal.aborted) replace(panel, [content].flat());
  }

  if (names.length) open(names[0]);
  return {
    element: element("section.card", { "aria-label": "Facts of the node" }, element("div.tabs", { role: "tablist", "aria-label": "Facts" }, tabs), panel),
    again: () => { if (openTab === "History") open(openTab, true); },
  };
}
