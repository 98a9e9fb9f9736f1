// A verb of one node: its arguments, its dry run, and the button that requests what is shown.

import { dialog, notice } from "./dialogs.js";
import { element, failure, replace } from "./dom.js";
import { verbArguments } from "./verb_arguments.js";
import { plain } from "./words.js";

export const DANGEROUS = new Set(["deleted", "rebuild", "clean", "abort"]);

const path = node => `nodes/${node.uuid}/states/provision`;

// Return what the agent would do, and which steps destroy data, according to a dry run.
export function foreseen({ agent, destroys = [] }) {
  const summary = agent?.summary || "";
  return [summary, ...destroys.filter(sentence => !summary.includes(sentence))].filter(Boolean);
}

function planned(rehearsal) {
  const refusals = rehearsal.refused.map(refusal => element("p.bad", {}, refusal.reason));
  if (!rehearsal.accepted) return [element("p", {}, "The node refuses this:"), refusals];
  return [
    element("p", {}, `The node becomes ${rehearsal.to}. `, rehearsal.steps.length ? "Steps, in this order:" : "There are no steps."),
    element("ol", {}, rehearsal.steps.map(step => element("li", {}, element("code", {}, `${step.interface}.${step.step}`),
      element("span.muted", {}, ` ${step.source === "frame" ? "part of every such operation" : step.source}${step.in_band ? ", by the agent" : ""}${step.child_node ? `, on ${step.child_node}` : ""}`)))),
    foreseen(rehearsal).map(consequence => element("p", {}, element("strong", {}, consequence))),
    refusals.length > 0 && [element("p", {}, "It would fail, because:"), refusals],
  ];
}

// Show a verb. values: initial arguments. title: of the dialog. onRequested: called after the request.
export function rehearse(api, node, verb, verbFacts, { values = {}, title = `Dry run: ${verb}`, onRequested }) {
  let acceptedRequest = null; // the request, as JSON, whose dry run is shown and was accepted
  const argumentForm = verbArguments(api, verbFacts, { values, node: node.uuid });
  const plan = element("div.plan", { "aria-live": "polite" });
  const body = () => ({ target: verb, ...argumentForm.body() });

  async function dryRun() {
    acceptedRequest = null;
    replace(plan, element("p.muted", {}, "Asking…"));
    try {
      const parameters = body();
      const rehearsal = await api.put(path(node), { ...parameters, dry_run: true });
      if (rehearsal.accepted) acceptedRequest = JSON.stringify(parameters);
      replace(plan, planned(rehearsal));
    } catch (error) {
      replace(plan, failure(error));
    }
    return false;
  }

  async function request() {
    try {
      const parameters = body();
      if (acceptedRequest !== JSON.stringify(parameters)) return dryRun(); // only a shown dry run may be requested
      await api.put(path(node), parameters);
    } catch (error) {
      replace(plan, failure(error));
      return false;
    }
    notice(`${verb} is requested.`);
    onRequested();
    return true;
  }

  const lacksArgument = verbFacts.requires.length > 0 && !verbFacts.requires.some(name => name in values);
  return dialog(title, [plain(verb) && element("p.muted", {}, `${verb}: ${plain(verb)}`), argumentForm.elements, plan], [
    ...(argumentForm.elements.length ? [{ label: "Dry run", act: dryRun }] : []),
    { label: `Start ${verb}`, kind: DANGEROUS.has(verb) ? "danger" : "primary", act: request },
  ], lacksArgument ? null : dryRun);
}
