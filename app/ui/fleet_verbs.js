// One verb for several nodes: first its dry run on each, then a confirmation.

import { dialog } from "./dialogs.js";
import { element } from "./dom.js";
import { foreseen } from "./node_verbs.js";

const AT_ONCE = 4; // requests

// Call `action` for each item, a few at a time; return the results in order. onProgress(count) is
// called after each item.
async function forEach(items, action, onProgress) {
  const results = [], entries = items.entries();
  let count = 0;
  const work = async () => {
    for (const [index, item] of entries) {
      results[index] = await action(item);
      onProgress(count += 1);
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, work));
  return results;
}

const request = (api, node, body) => api.put(`nodes/${node}/states/provision`, body);

// Return reason -> the nodes that have it.
function byReason(refusals) {
  const groups = new Map();
  for (const { node, reason } of refusals) groups.set(reason, [...(groups.get(reason) || []), node]);
  return groups;
}

const listOf = refusals => element("ul", {}, [...byReason(refusals)].map(([reason, nodes]) =>
  element("li", {}, `${nodes.length}: ${reason.replaceAll(nodes[0], "the node")} `,
    nodes.slice(0, 3).map(node => [element("a", { href: `#/nodes/${node}` }, node.slice(0, 8)), " "]))));

// Show what a verb would do with the nodes, and request it after a confirmation. Return a promise
// of the number of nodes that refused it, or null if it was not requested. onProgress(count) is
// called after the answer of each node.
export async function rehearse(api, nodes, verb, tell, onProgress) {
  const rehearsals = await forEach(nodes, async node => {
    try {
      const plan = await request(api, node, { target: verb, dry_run: true });
      return { node, plan, reason: plan.refused.map(refusal => refusal.reason).join("; ") };
    } catch (error) {
      return { node, reason: error.message };
    }
  }, onProgress);
  const accepted = rehearsals.filter(rehearsal => rehearsal.plan?.accepted && !rehearsal.reason);
  const refused = rehearsals.filter(rehearsal => !accepted.includes(rehearsal));
  const steps = new Map(accepted.map(rehearsal => [rehearsal.plan.steps.map(step => `${step.interface}.${step.step}`).join(" → "), rehearsal]));
  let outcome = null;
  async function start() {
    const results = await forEach(accepted, async ({ node }) => {
      try {
        await request(api, node, { target: verb });
        return null;
      } catch (error) {
        return { node, reason: error.message };
      }
    }, onProgress);
    const refusals = results.filter(Boolean);
    outcome = refusals.length;
    tell(refusals.length ? [`${refusals.length} of ${accepted.length} nodes refused ${verb}: `, listOf(refusals)]
      : `${verb} is requested for ${accepted.length} nodes.`, refusals.length ? "bad" : "");
  }
  await dialog(`Dry run: ${verb}`, [
    element("p", {}, `${accepted.length} of ${nodes.length} nodes accept it.`),
    [...steps.keys()].slice(0, 3).map(text => element("p.code", {}, text || "no step")),
    [...new Set(accepted.flatMap(rehearsal => foreseen(rehearsal.plan)))].slice(0, 3).map(text => element("p", {}, element("strong", {}, text))),
    steps.size > 3 && element("p.muted", {}, `and ${steps.size - 3} other sequences of steps`),
    refused.length > 0 && [element("h3", {}, "Not started"), listOf(refused)],
  ], accepted.length ? [{ label: `Start ${verb} on ${accepted.length}`, kind: "primary", act: start }] : []);
  return outcome;
}
