// A node: where it is, why it waits, its operation step by step, and its verbs.

import { element, empty, failure, replace } from "./dom.js";
import { badge, facts, moment, verbsOf } from "./facts.js";
import { gathered } from "./live.js";
import { held, holds } from "./node_holds.js";
import { parts } from "./node_parts.js";
import { following, machine } from "./node_states.js";
import { liveness } from "./parts.js";
import { timeline } from "./node_timeline.js";
import { buttons } from "./node_verbs.js";

const TICK = 1000; // milliseconds between drawings of a running operation

export const page = { title: "Node", path: "/nodes/:id", show };

async function show(root, { api, live, params, signal }) {
  const known = await facts();
  const draw = machine(known.states);
  const at = encodeURIComponent(params.id);
  const head = element("div.row"), verbs = element("div"), why = element("section.card.why", { "aria-label": "Why" });
  const drawing = element("section.card", { "aria-label": "States" });
  const operations = element("section.card", { "aria-label": "Operations" });
  const told = liveness();
  let node = await api.get(`nodes/${at}`, {}, signal); // a node that does not exist has no page
  let kept = []; // its holds
  let accepted = []; // verbs, unknown for a caller who may not read the explanation
  let chosen = null, list = [], operation = null;
  const tabs = parts(api, node.uuid, signal);
  const section = holds(api, node.uuid, known.filters.hold.values, () => again());
  document.title = `${node.name || node.uuid} · Ingot`;
  replace(root, head, verbs, why, section.element, operations, drawing, tabs.element);

  // Whether nothing moves the node on: after a failure its target stays.
  const atRest = () => ["stable", "failed"].includes(known.states[node.provision_state].kind);

  function showHead() {
    replace(head,
      element("h1", {}, node.name || node.uuid), badge(known, node.provision_state),
      node.target_provision_state && element("span", {}, atRest() ? "target " : "on its way to ", badge(known, node.target_provision_state)),
      element("span.muted", {}, node.power_state || "power unknown"),
      node.maintenance && element("span.badge.hold", { title: node.maintenance_reason || "" }, "maintenance"),
      kept.map(each => held(each.kind, each.reason)),
      node.fault && element("span.badge.failed", {}, node.fault),
      element("span.muted", {}, [node.driver, node.resource_class, node.conductor && `conductor ${node.conductor}`].filter(Boolean).join(" · ")),
      node.name && element("code.muted", {}, node.uuid), told.element);
    const shown = [node.provision_state, node.power_state, node.maintenance, node.reservation, accepted].join();
    if (verbs.dataset.shown !== shown) {
      verbs.dataset.shown = shown; // unchanged buttons keep their focus
      replace(verbs, buttons(api, node, known, accepted, again, section.button));
    }
    replace(drawing, element("h2", {}, "States"), draw(node.provision_state, node.target_provision_state),
      following(known.states, node.provision_state));
  }

  function showWhy(found) {
    const rows = [
      ["waits for", found.waiting_for], ["step", found.step && element("code", {}, found.step)],
      ["held by", found.held_by], ["since", found.since && moment(found.since)],
      ["next", found.next], ["at the latest", found.next_at && moment(found.next_at)],
      ...Object.entries(found.refused_verbs).filter(([verb]) => verb !== "active").map(([verb, reason]) => [`${verb} is refused`, reason]),
    ].filter(([, value]) => value);
    const { error } = found;
    // The summary has the message; no row repeats it.
    const said = text => typeof text === "string" && found.summary.toLowerCase().includes(text.toLowerCase());
    why.classList.toggle("failed", Boolean(error));
    replace(why, element("h2", {}, "Why, and what is next"), element("p.summary", {}, found.summary),
      error && element("dl.facts.error", {}, [["error", !said(error.message) && error.message], ["code", error.code && element("code", {}, error.code)], ["cause", error.cause], ["hint", error.hint]]
        .filter(([, value]) => value).map(([name, value]) => [element("dt", {}, name), element("dd.bad", {}, value)])),
      !error && node.last_error && !said(node.last_error) && element("p.bad", {}, `Last error: ${node.last_error}`),
      element("dl.facts", {}, rows.map(([name, value]) => [element("dt", {}, name), element("dd", {}, value)])));
  }

  function showOperations() {
    const others = list.length > 1 && element("label.inline", {}, "Operation",
      element("select", { onchange: event => { chosen = event.target.value; read(); } },
        list.map(each => element("option", { value: each.uuid, selected: each.uuid === operation?.uuid },
          `${each.kind}, ${each.state}, ${new Date(each.created_at).toLocaleString()}`))));
    const shown = JSON.stringify([operation?.uuid, list.map(each => [each.uuid, each.state])]);
    if (heading.dataset.shown !== shown) {
      heading.dataset.shown = shown; // an unchanged list stays open
      replace(heading, element("h2", {}, "Operation"), others);
    }
    showSteps();
  }
  const heading = element("div.row"), steps = element("div");
  replace(operations, heading, steps);
  const showSteps = () => replace(steps, operation
    ? timeline(operation, Date.now() / 1000) : empty("No operation has run on this node yet. A verb above starts one."));

  // Read a part; show its error in its place, and nowhere else.
  async function part(place, act) {
    try {
      await act();
    } catch (error) {
      if (!signal.aborted) replace(place, failure(error));
    }
  }

  // Read the holds for a caller who may not read the explanation, such as a lessee.
  const holdsAlone = async () => (await api.get(`nodes/${at}/holds`, {}, signal)).holds;

  async function read() {
    const explained = api.get(`nodes/${at}/why`, {}, signal);
    const current = explained.then(found => found.holds, holdsAlone);
    const offered = explained.then(found => found.verbs, async () => verbsOf(known, (await api.get(`nodes/${at}`, {}, signal)).provision_state));
    await part(head, async () => {
      [node, kept, accepted] = await Promise.all([api.get(`nodes/${at}`, {}, signal), current, offered]);
      showHead();
      section.show(kept);
    });
    await part(why, async () => showWhy(await explained));
    await part(operations, async () => {
      list = (await api.get(`nodes/${at}/operations`, {}, signal)).operations;
      const active = list.find(each => !each.finished_at);
      const uuid = chosen || active?.uuid || list[0]?.uuid;
      operation = uuid ? await api.get(`operations/${uuid}`, {}, signal) : null;
      if (!heading.isConnected) replace(operations, heading, steps); // after an error
      showOperations();
    });
  }

  const again = gathered(async () => { await read(); tabs.again(); }, 300, signal);
  const tick = setInterval(() => { if (operation && !operation.finished_at) showSteps(); }, TICK);
  await live.subscribe({ node: node.uuid }, {
    signal, onReset: again,
    onEvents: events => {
      if (events.some(each => each.type === "operation.state" && each.before === null)) chosen = null; // show the new one
      again();
    },
    onState: told.show,
  });
  await read();
  return () => clearInterval(tick);
}
