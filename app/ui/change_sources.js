// What has changed, from three lists of the API: events, requests (the audit) and operations.

import { element } from "./dom.js";
import { duration } from "./facts.js";
import { badge } from "./parts.js";

const PAGE = 1000; // items of a request
const MOST_PAGES = 10; // requests of a source: the oldest changes of a long range are left out
//: Events that are the parts of an operation, which is listed as a whole.
const OF_OPERATIONS = /^(operation|step)\./;

const time = text => new Date(text).getTime();
const seconds = (from, end) => (time(end) - time(from)) / 1000;

const eventRow = event => ({
  at: event.created_at, kind: "event", node: event.node_uuid && { uuid: event.node_uuid, name: event.node_name }, by: "",
  words: [event.type, event.operation_kind, event.step, event.before, event.after, event.resource_name || event.resource_uuid].filter(Boolean).join(" "),
  what: [
    element("code", {}, event.type), ` ${[event.operation_kind, event.step, event.resource_name || event.resource_uuid].filter(Boolean).join(" ")} `,
    event.before !== null && event.after !== null ? `${event.before} → ${event.after}` : event.after ?? event.before ?? "",
  ],
});

function requestRow(record) {
  const isNode = record.target_type === "node" && record.target;
  return {
    at: record.created_at, kind: "request", node: isNode && { uuid: record.target, name: record.target_name },
    by: record.user_name || (record.auth === "agent" ? "agent" : record.user_id) || "unknown",
    words: [record.action, record.target_name, record.target, record.outcome, record.reason, ...record.fields].filter(Boolean).join(" "),
    what: [
      element("code", {}, record.action), " ", !isNode && record.target && `${record.target_name || record.target} `,
      record.outcome !== "success" && badge(record.outcome, record.outcome === "pending" ? "wait" : "failed"),
      record.reason && ` ${record.reason}`, record.requests > 1 && ` ${record.requests} times`,
      record.fields.length > 0 && element("span.muted", {}, ` ${record.fields.slice(0, 8).join(", ")}`),
    ],
  };
}

const operationRow = operation => ({
  at: operation.finished_at || operation.started_at || operation.created_at, kind: "operation",
  node: { uuid: operation.node_uuid, name: operation.node_name }, by: operation.requested_by || "",
  words: [operation.kind, operation.state, operation.error?.code, operation.error?.message].filter(Boolean).join(" "),
  what: [
    operation.kind, " ", badge(operation.state), operation.finished_at && ` after ${duration(seconds(operation.created_at, operation.finished_at))} `,
    operation.error && element("span.bad", {}, operation.error.message),
  ],
});

// Read a list whose pages go from the newest item on, until `since`. Return { rows, end }: `end` is the
// time before which nothing was read, or null.
async function readList(api, path, member, query, since, rowOf, signal) {
  const rows = [];
  let marker = null;
  for (let page = 0; page < MOST_PAGES; page += 1) {
    const answer = await api.get(path, { ...query, limit: PAGE, marker }, signal);
    rows.push(...answer[member].map(rowOf));
    const oldest = answer[member].at(-1)?.created_at;
    if (!answer.next || time(oldest) < since) return { rows, end: null };
    marker = new URL(answer.next).searchParams.get("marker");
  }
  return { rows, end: rows.at(-1).at };
}

// Read events from the newest on: their numbers have no gaps, so a page is a range of numbers.
async function readEvents(api, { since, node, isWhole }, signal) {
  const rows = [], shown = isWhole ? () => true : event => !OF_OPERATIONS.test(event.type);
  let answer = await api.get("events", { limit: PAGE, node }, signal);
  let begin = answer.last; // number of the oldest event that was read
  for (let page = 0; page < MOST_PAGES; page += 1) {
    const events = answer.events.filter(event => event.sequence <= begin);
    rows.push(...events.filter(shown).map(eventRow));
    const oldest = events[0];
    if (!oldest && page) return { rows, end: null };
    if (node) return { rows, end: events.length < PAGE ? null : oldest.created_at }; // numbers of other nodes are between
    begin = (oldest ? oldest.sequence : begin) - 1;
    if (begin < answer.first || !oldest || time(oldest.created_at) < since) return { rows, end: null };
    answer = await api.get("events", { after: Math.max(0, begin - PAGE), limit: PAGE, node }, signal);
  }
  return { rows, end: rows.at(-1)?.at ?? null };
}

//: Source -> { title, rule of the policy, read(api, range, signal) }. range: { since, until, node, isWhole },
//: times in milliseconds; isWhole: also the events of operations and steps.
export const SOURCES = {
  operations: {
    title: "Operations", rule: "operation:list",
    read: async (api, { since, node }, signal) => (node
      ? { rows: (await api.get(`nodes/${encodeURIComponent(node)}/operations`, {}, signal)).operations.map(operationRow), end: null }
      : readList(api, "operations", "operations", {}, since, operationRow, signal)),
  },
  requests: {
    title: "Requests", rule: "audit:get",
    read: (api, { since, until, uuid }, signal) => readList(api, "audit", "audit",
      { since: new Date(since).toISOString(), until: until && new Date(until).toISOString(), target: uuid }, since, requestRow, signal),
  },
  events: { title: "Changes of state", rule: "event:list", read: readEvents },
};
