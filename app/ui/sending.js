// Requests for many nodes: a few at a time, with their progress and their refusals by reason.

import { element } from "./dom.js";

const AT_ONCE = 4; // requests

// Call `action` for each item, a few at a time; return the results in order. onProgress(count) is
// called after each item.
export async function forEach(items, action, onProgress = () => {}) {
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

// Send a request for each node; return the refusals: { node, reason }. A node is { uuid, name }.
export async function sendEach(nodes, request, onProgress) {
  const results = await forEach(nodes, async node => {
    try {
      await request(node);
      return null;
    } catch (error) {
      return { node, reason: error.message };
    }
  }, onProgress);
  return results.filter(Boolean);
}

export const nameOf = node => node.name || node.uuid;

// A reason without the names of its node, so that those of other nodes are equal.
const common = ({ node, reason }) =>
  [node.uuid, node.name].filter(Boolean).reduce((text, name) => text.replaceAll(name, "the node"), reason);

// The refusals of nodes, by reason, the most frequent first.
export function refusalList(refusals) {
  const groups = new Map();
  for (const refusal of refusals) groups.set(common(refusal), [...(groups.get(common(refusal)) || []), refusal.node]);
  return element("ul", {}, [...groups].sort(([, left], [, right]) => right.length - left.length).map(([reason, nodes]) =>
    element("li", {}, `${nodes.length}: ${reason} `,
      nodes.slice(0, 3).map(node => [element("a", { href: `#/nodes/${node.uuid}` }, nameOf(node)), " "]),
      nodes.length > 3 && "…")));
}
