// One verb for several nodes: first its dry run on each, then a confirmation.

import { dialog, notice } from "./dialogs.js";
import { element, replace } from "./dom.js";
import { readRetry } from "./retries.js";
import { forEach, refusalList, sendEach } from "./sending.js";
import { verbArguments } from "./verb_arguments.js";
import { DANGEROUS, foreseen } from "./verb_dialog.js";
import { counted, withPlain } from "./words.js";

const SHOWN = 3; // sequences of steps

const provision = (api, node, body) => api.put(`nodes/${node.uuid}/states/provision`, body);

// Ask for the arguments of a verb that takes some. Return the body of its requests, or null.
async function argumentsOf(api, verb, verbFacts) {
  const fields = verbArguments(api, verbFacts, {});
  if (!fields.elements.length) return { target: verb };
  let body = null;
  const errorBox = element("div");
  await dialog(`Arguments of ${verb}`, [fields.elements, errorBox], [{
    label: "Dry run", kind: "primary",
    act: () => {
      try {
        body = { target: verb, ...fields.body() };
      } catch (error) {
        replace(errorBox, element("p.bad", { role: "alert" }, error.message));
        return false;
      }
      return true;
    },
  }]);
  return body;
}

// Return the answer of a dry run for a node: { node, body, plan } or { node, reason }.
async function answered(api, node, bodyOf) {
  try {
    const body = await bodyOf(node);
    if (!body) return { node, reason: "nothing has failed, or what failed cannot be repeated now" };
    if (body.power) return { node, body, plan: { steps: [], accepted: true, text: body.power } };
    const plan = await provision(api, node, { ...body, dry_run: true });
    const reason = plan.refused.map(refusal => refusal.reason).join("; ");
    return plan.accepted && !reason ? { node, body, plan } : { node, reason };
  } catch (error) {
    return { node, reason: error.message };
  }
}

const request = (api, node, body) =>
  body.power ? api.put(`nodes/${node.uuid}/states/power`, { target: body.power }) : provision(api, node, body);

// The sequences of steps that nodes would run, with their number of nodes, the most frequent first.
function sequences(accepted) {
  const groups = new Map();
  for (const { plan, body } of accepted) {
    const text = `${body.power || body.target}: ${plan.steps.map(step => `${step.interface}.${step.step}`).join(" → ") || "no step"}`;
    groups.set(text, (groups.get(text) || 0) + 1);
  }
  const sorted = [...groups].sort(([, left], [, right]) => right - left);
  return [
    sorted.slice(0, SHOWN).map(([text, count]) => element("p.code", {}, `${counted(count, "node")}: ${text}`)),
    sorted.length > SHOWN && element("p.muted", {}, `and ${sorted.length - SHOWN} other sequences of steps`),
  ];
}

// Show the dry run of requests for nodes, and send them after a confirmation. Return a promise of the
// number of nodes that refused, or null if nothing was requested. label: of what is requested.
async function rehearseEach(api, nodes, { label, title, bodyOf, isDangerous }, onProgress) {
  const rehearsals = await forEach(nodes, node => answered(api, node, bodyOf), onProgress);
  const accepted = rehearsals.filter(({ plan }) => plan), refused = rehearsals.filter(({ plan }) => !plan);
  let outcome = null;
  async function start() {
    const bodies = new Map(accepted.map(({ node, body }) => [node.uuid, body]));
    const refusals = await sendEach(accepted.map(({ node }) => node), node => request(api, node, bodies.get(node.uuid)), onProgress);
    outcome = refusals.length;
    notice(refusals.length ? [`${refusals.length} of ${counted(accepted.length, "node")} refused ${label}: `, refusalList(refusals)]
      : `${label} is requested for ${counted(accepted.length, "node")}.`, refusals.length ? "bad" : "");
  }
  await dialog(title, [
    element("p", {}, `${accepted.length.toLocaleString()} of ${counted(nodes.length, "node")} accept it.`),
    sequences(accepted),
    [...new Set(accepted.flatMap(({ plan }) => foreseen(plan)))].slice(0, SHOWN).map(text => element("p", {}, element("strong", {}, text))),
    refused.length > 0 && [element("h3", {}, "Not started"), refusalList(refused)],
  ], accepted.length
    ? [{ label: `Start ${label} on ${accepted.length.toLocaleString()}`, kind: isDangerous ? "danger" : "primary", act: start }] : []);
  return outcome;
}

// Show what a verb would do with the nodes, and request it after a confirmation; see `rehearseEach`.
export async function rehearse(api, nodes, verb, verbFacts, onProgress) {
  const body = await argumentsOf(api, verb, verbFacts);
  if (!body) return null;
  return rehearseEach(api, nodes, {
    label: verb, title: `Dry run: ${withPlain(verb)}`, bodyOf: () => body, isDangerous: DANGEROUS.has(verb),
  }, onProgress);
}

// Show what would repeat the failed operation of each node, and request it; see `rehearseEach`.
export const retryFailed = (api, nodes, onProgress) => rehearseEach(api, nodes, {
  label: "the retry", title: "Retry what has failed", isDangerous: false,
  bodyOf: async node => {
    const retry = await readRetry(api, node.uuid);
    return retry && (retry.power ? { power: retry.power } : { target: retry.verb, ...retry.values });
  },
}, onProgress);
