// A node: where it is, why it waits, its operation step by step, and its verbs.

import { element, empty, factList, failure, replace } from "./dom.js";
import { badge, facts, moment, verbsOf } from "./facts.js";
import { gathered } from "./live.js";
import { edit, remove } from "./node_form.js";
import { held, holds } from "./node_holds.js";
import { parts } from "./node_parts.js";
import { following, machine } from "./node_states.js";
import { downloadLink, liveness } from "./parts.js";
import { timeline } from "./node_timeline.js";
import { buttons } from "./node_verbs.js";
import { permissionsOf } from "./permissions.js";
import { retryOf } from "./retries.js";
import { repeat } from "./times.js";

const TICK = 1000; // milliseconds between drawings of a running operation

export const page = { title: "Node", path: "/nodes/:id", show };

async function show(root, { api, live, navigate, params, signal }) {
  const release = await facts();
  const draw = machine(release.states);
  const ident = encodeURIComponent(params.id);
  const head = element("div.row"), verbs = element("div"), whySection = element("section.card.why", { "aria-label": "Why" });
  const statesSection = element("div"), states = element("details.card", {}, element("summary", {}, "State machine"), statesSection);
  const operations = element("section.card", { "aria-label": "Operations" });
  const connection = liveness();
  let node, may;
  try {
    [node, may] = await Promise.all([api.get(`nodes/${ident}`, {}, signal), permissionsOf(api, params.id, signal)]);
  } catch (error) { // a node that does not exist has no page
    if (signal.aborted) return undefined;
    return replace(root, failure(error), element("p", {}, element("a", { href: `#/fleet?${new URLSearchParams({ where: params.id })}` }, `Search the fleet for ${params.id}`)));
  }
  let nodeHolds = []; // its holds
  let acceptedVerbs = []; // verbs, unknown for a caller who may not read the explanation
  let chosenUuid = null, list = [], operation = null, retry = null;
  const columns = element("div.node-parts");
  const tabs = parts(api, node.uuid, { signal, may, onWide: wide => columns.classList.toggle("wide", wide) });
  const section = holds(api, node.uuid, { kinds: release.filters.hold.values, mayChange: may("hold:create"), onChange: () => refresh() });
  document.title = `${node.name || node.uuid} · Ingot`;
  replace(columns, operations, tabs.element);
  replace(root, head, verbs, whySection, section.element, columns, states);

  // Whether no operation moves the node: after a failure its target stays.
  const atRest = () => ["stable", "failed"].includes(release.states[node.provision_state].kind);

  function showHead() {
    replace(head,
      element("h1", {}, node.name || node.uuid), badge(release, node.provision_state),
      node.target_provision_state && element("span", {}, atRest() ? "target " : "on its way to ", badge(release, node.target_provision_state)),
      element("span.muted", {}, node.power_state || "power unknown"),
      node.maintenance && element("span.badge.hold", { title: node.maintenance_reason || "" }, "maintenance"),
      nodeHolds.map(hold => held(hold.kind, hold.reason)),
      node.fault && element("span.badge.failed", {}, node.fault),
      element("span.muted", {}, [node.driver, node.resource_class, node.conductor && `conductor ${node.conductor}`].filter(Boolean).join(" · ")),
      node.name && element("code.muted", {}, node.uuid), connection.element);
    const shownFacts = JSON.stringify([node.name, node.provision_state, node.power_state, node.maintenance, node.reservation, acceptedVerbs, retry]);
    if (verbs.dataset.shown !== shownFacts) {
      verbs.dataset.shown = shownFacts; // unchanged buttons keep their focus
      replace(verbs, buttons(api, node, release, { verbs: acceptedVerbs, retry, may, onChange: refresh, extraButtons: recordButtons() }));
    }
    replace(statesSection, draw(node.provision_state, node.target_provision_state), following(release.states, node.provision_state));
  }

  const recordButtons = () => [
    may("hold:create") && section.button,
    may("node:update") && element("button", { type: "button", onclick: () => edit(api, node, refresh) }, "Edit"),
    may("node:delete") && element("button.danger", { type: "button", onclick: () => remove(api, node, () => navigate("/fleet")) }, "Delete"),
  ];

  function showWhy(explanation) {
    const rows = [
      ["waits for", explanation.waiting_for], ["step", explanation.step && element("code", {}, explanation.step)],
      ["held by", explanation.held_by], ["since", explanation.since && moment(explanation.since)],
      ["next", explanation.next], ["at the latest", explanation.next_at && moment(explanation.next_at)],
      ...Object.entries(explanation.refused_verbs).filter(([verb]) => verb !== "active").map(([verb, reason]) => [`${verb} is refused`, reason]),
    ];
    const { error } = explanation;
    // The summary has the message; no row repeats it.
    const hasText = text => typeof text === "string" && explanation.summary.toLowerCase().includes(text.toLowerCase());
    whySection.classList.toggle("failed", Boolean(error));
    replace(whySection, element("h2", {}, "Why, and what is next"), element("p.summary", {}, explanation.summary),
      error && factList([["error", !hasText(error.message) && error.message], ["code", error.code && element("code", {}, error.code)],
        ["cause", !hasText(error.cause) && error.cause], ["hint", !hasText(error.hint) && error.hint]], ".error", ".bad"),
      !error && node.last_error && !hasText(node.last_error) && element("p.bad", {}, `Last error: ${node.last_error}`),
      explanation.agent_log && may("node:agent_logs:get")
        && element("p", {}, downloadLink(explanation.agent_log.replace("/v1/", ""), explanation.agent_log.split("/").pop(), "The agent's log")),
      factList(rows));
  }

  function showOperations() {
    const choice = list.length > 1 && element("label.inline", {}, "Operation",
      element("select", { onchange: event => { chosenUuid = event.target.value; readAll(); } },
        list.map(item => element("option", { value: item.uuid, selected: item.uuid === operation?.uuid },
          `${item.kind}, ${item.state}, ${new Date(item.created_at).toLocaleString()}`))));
    const listKey = JSON.stringify([operation?.uuid, list.map(item => [item.uuid, item.state])]);
    if (heading.dataset.shown !== listKey) {
      heading.dataset.shown = listKey; // an unchanged list stays open
      replace(heading, element("h2", {}, "Operation"), choice);
    }
    showSteps();
  }
  const heading = element("div.row"), steps = element("div");
  replace(operations, heading, steps);
  const showSteps = () => replace(steps, operation
    ? timeline(operation, Date.now() / 1000, may("node:agent_logs:get")) : empty("No operation has run on this node yet. A verb above starts one."));

  // Read a part; show its error in its section only.
  async function part(sectionRoot, action) {
    try {
      await action();
    } catch (error) {
      if (!signal.aborted) replace(sectionRoot, failure(error));
    }
  }

  // Read the holds for a caller who may not read the explanation, such as a lessee.
  const holdsAlone = async () => (await api.get(`nodes/${ident}/holds`, {}, signal)).holds;

  async function readAll() {
    const explained = api.get(`nodes/${ident}/why`, {}, signal);
    const holdsRequest = explained.then(explanation => explanation.holds, holdsAlone);
    const offered = explained.then(explanation => explanation.verbs, async () => verbsOf(release, (await api.get(`nodes/${ident}`, {}, signal)).provision_state));
    await part(head, async () => {
      [node, nodeHolds, acceptedVerbs] = await Promise.all([api.get(`nodes/${ident}`, {}, signal), holdsRequest, offered]);
      showHead();
      section.show(nodeHolds);
    });
    await part(whySection, async () => showWhy(await explained));
    await part(verbs, async () => {
      const explanation = await explained.catch(() => null);
      const failed = explanation?.error && explanation.operation;
      retry = failed ? retryOf(await api.get(`operations/${failed}`, {}, signal), explanation) : null;
      showHead();
    });
    await part(operations, async () => {
      list = (await api.get(`nodes/${ident}/operations`, {}, signal)).operations;
      const activeOperation = list.find(item => !item.finished_at);
      const uuid = chosenUuid || activeOperation?.uuid || list[0]?.uuid;
      operation = uuid ? await api.get(`operations/${uuid}`, {}, signal) : null;
      if (!heading.isConnected) replace(operations, heading, steps); // after an error
      showOperations();
    });
  }

  const refresh = gathered(async () => { await readAll(); tabs.again(); }, 300, signal);
  repeat(TICK, () => { if (operation && !operation.finished_at) showSteps(); }, signal);
  await live.subscribe({ node: node.uuid }, {
    signal, onReset: refresh,
    onEvents: events => {
      if (events.some(event => event.type === "operation.state" && event.before === null)) chosenUuid = null; // show the new operation
      refresh();
    },
    onState: connection.show,
  });
  await readAll();
}
