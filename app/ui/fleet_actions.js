// The bar of the selected nodes: what can be done with all of them at once, or in waves.

import { notice, reporting } from "./dialogs.js";
import { element } from "./dom.js";
import { CHANGES, change } from "./fleet_changes.js";
import { MOST_IN_EXPRESSION } from "./fleet_selection.js";
import { rehearse, retryFailed } from "./fleet_verbs.js";
import { createRollout } from "./rollout_form.js";
import { counted, withPlain } from "./words.js";

//: Nodes above which a verb is started by a rollout only: in waves, and paused when too many fail.
const MOST_AT_ONCE = 200;
const HIDDEN = new Set(["active", "undeploy"]); // other names of deploy and deleted

// Return { element, show(), choose(action) } for a selection. may: the caller's permissions.
export function actionBar({ api, release, may, selection, navigate }) {
  const option = (value, text) => element("option", { value }, text);
  const isVerb = value => value in release.verbs || value === "retry";
  // one select for all selections: it keeps the chosen verb
  const verb = element("select", { "aria-label": "Verb", onchange: show },
    option("", "Choose…"),
    may("node:set_provision_state") && element("optgroup", { label: "Verbs" }, option("retry", "retry (what has failed)"),
      Object.keys(release.verbs).filter(name => !HIDDEN.has(name)).map(name => option(name, withPlain(name)))),
    element("optgroup", { label: "Machine and record" },
      Object.entries(CHANGES).filter(([, { rule }]) => may(rule)).map(([key, { title }]) => option(key, title))));
  const start = element("button.primary", { type: "button", onclick: begin }, "Dry run…");
  const remark = element("span.muted", { role: "status" });
  const rollOut = may("rollout:create") && element("button", { type: "button", onclick: () => plan() }, "Roll out…");
  const count = element("strong");
  const bar = element("div.row.selection", { hidden: true, role: "group", "aria-label": "Selected nodes" },
    count, verb, start, rollOut, element("button.quiet", { type: "button", onclick: () => selection.clear() }, "Clear"), remark);
  let isBusy = false;

  const label = () => (!verb.value || isVerb(verb.value) ? "Dry run…" : "Continue…");

  function show() {
    const { size, isAll } = selection;
    bar.hidden = selection.isEmpty;
    if (isBusy || bar.hidden) return;
    count.textContent = `${size === null ? "all" : size.toLocaleString()} selected${isAll ? ", all that match" : ""}`;
    const isMany = isVerb(verb.value) && (size === null || size > MOST_AT_ONCE);
    start.disabled = !verb.value || isMany;
    start.textContent = label();
    remark.textContent = !isMany ? "" : verb.value === "retry" ? `Retries are sent to at most ${MOST_AT_ONCE} nodes at once.`
      : `Above ${MOST_AT_ONCE} nodes, verbs are rolled out: in waves, and paused when too many fail.`;
    if (rollOut) rollOut.disabled = selection.asFilters() === null;
    if (rollOut?.disabled) remark.textContent = `A rollout takes all that match, or at most ${MOST_IN_EXPRESSION} picked nodes.`;
  }

  async function begin() {
    const action = verb.value;
    let total = "";
    const progress = done => { start.textContent = `${done} of ${total} nodes have answered…`; };
    isBusy = start.disabled = true; // one dry run at a time
    try {
      const nodes = await selection.read(api, read => { start.textContent = `${counted(read, "node")} read…`; });
      total = nodes.length;
      progress(0);
      const refused = action === "retry" ? await retryFailed(api, nodes, progress)
        : isVerb(action) ? await rehearse(api, nodes, action, release.verbs[action], progress)
          : await change(api, nodes, action, release, progress);
      if (refused !== null) selection.clear();
    } catch (error) {
      notice(error.message, "bad");
    } finally {
      isBusy = false;
      start.disabled = false;
      show();
    }
  }

  const plan = () => reporting(() => createRollout(api, release, {
    filters: selection.asFilters(), target: isVerb(verb.value) || /power|reboot/.test(verb.value) ? verb.value : "",
  }, rollout => navigate(`/rollouts/${rollout.uuid}`)));

  return { element: bar, show, choose: action => { verb.value = action; show(); } };
}
