// What would repeat the operation that has failed: its verb and arguments, if the node accepts them now.

import { sendable } from "./verb_arguments.js";

// Return { verb, values } or { power } of a failed operation, or null if it cannot be repeated.
// explanation: the answer of `why`.
export function retryOf(operation, explanation) {
  if (!operation || !explanation?.error || operation.uuid !== explanation.operation) return null;
  if (operation.kind === "power") return { power: operation.arguments.target };
  if (!explanation.verbs.includes(operation.kind)) return null;
  return { verb: operation.kind, values: sendable(operation.arguments) };
}

// Ask the service what would repeat the failed operation of a node.
export async function readRetry(api, uuid) {
  const explanation = await api.get(`nodes/${uuid}/why`);
  if (!explanation.error || !explanation.operation) return null;
  return retryOf(await api.get(`operations/${explanation.operation}`), explanation);
}
