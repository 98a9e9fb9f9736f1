// One verb for several nodes: first its dry run on each, then a confirmation.

import { dialog } from "./dialogs.js";
import { element } from "./dom.js";
import { foreseen } from "./node_verbs.js";

const AT_ONCE = 4; // requests

// Call `act` for each item, a few at a time; return the results in order. ended(count): after each.
async function each(items, act, ended) {
  const results = [], rest = items.entries();
  let count = 0;
  const work = async () => {
    for (const [at, item] of rest) {
      results[at] = await act(item);
      ended(count += 1);
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, work));
  return results;
}

const ask = (api, node, body) => api.put(`nodes/${node}/states/provision`, body);

// Return reason -> the nodes that have it.
function grouped(refusals) {
  const groups = new Map();
  for (const { node, reason } of refusals) groups.set(reason, [...(groups.get(reason) || []), node]);
  return groups;
}

const listed = refusals => element("ul", {}, [...grouped(refusals)].map(([reason, nodes]) =>
  element("li", {}, `${nodes.length}: ${reason.replaceAll(nodes[0], "the node")} `,
    nodes.slice(0, 3).map(node => [element("a", { href: `#/nodes/${node}` }, node.slice(0, 8)), " "]))));

// Show what a verb would do with the nodes, and request it after a confirmation. Return a promise
// of the number of nodes that refused it, or null if it was not requested. asked(count): after the
// answer of each node.
export async function rehearse(api, nodes, verb, tell, asked) {
  const found = await each(nodes, async node => {
    try {
      const plan = await ask(api, node, { target: verb, dry_run: true });
      return { node, plan, reason: plan.refused.map(one => one.reason).join("; ") };
    } catch (error) {
      return { node, reason: error.message };
    }
  }, asked);
  const good = found.filter(one => one.plan?.accepted && !one.reason);
  const bad = found.filter(one => !good.includes(one));
  const steps = new Map(good.map(one => [one.plan.steps.map(step => `${step.interface}.${step.step}`).join(" → "), one]));
  let outcome = null;
  async function start() {
    const results = await each(good, async ({ node }) => {
      try {
        await ask(api, node, { target: verb });
        return null;
      } catch (error) {
        return { node, reason: error.message };
      }
    }, asked);
    const refused = results.filter(Boolean);
    outcome = refused.length;
    tell(refused.length ? [`${refused.length} of ${good.length} nodes refused ${verb}: `, listed(refused)]
      : `${verb} is requested for ${good.length} nodes.`, refused.length ? "bad" : "");
  }
  await dialog(`Dry run: ${verb}`, [
    element("p", {}, `${good.length} of ${nodes.length} nodes accept it.`),
    [...steps.keys()].slice(0, 3).map(words => element("p.code", {}, words || "no step")),
    [...new Set(good.flatMap(one => foreseen(one.plan)))].slice(0, 3).map(words => element("p", {}, element("strong", {}, words))),
    steps.size > 3 && element("p.muted", {}, `and ${steps.size - 3} other sequences of steps`),
    bad.length > 0 && [element("h3", {}, "Not started"), listed(bad)],
  ], good.length ? [{ label: `Start ${verb} on ${good.length}`, kind: "primary", act: start }] : []);
  return outcome;
}
