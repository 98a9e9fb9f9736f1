// An operation as a timeline: its steps with durations, attempts, conductors, waits and progress.

import { drawn, element, empty } from "./dom.js";
import { duration, moment } from "./facts.js";
import { downloadLink } from "./parts.js";
import { counted, plain } from "./words.js";

const KINDS = {
  pending: "far", running: "busy", waiting: "wait", held: "hold", done: "stable", failed: "failed", skipped: "far", aborted: "failed",
  queued: "wait", succeeded: "stable",
};
const time = text => (text ? new Date(text).getTime() / 1000 : null);

//: Facts of a step's progress that name things of the service: no reader can use them.
const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-/i;

// Yield the remarkable facts of a step; its conductor only if the previous step had another one.
function* remarks(step, previousStep, node, mayReadLogs) {
  if (step.conductor && step.conductor !== previousStep?.conductor) yield `by ${step.conductor}`;
  if (step.attempts > 1) yield `attempt ${step.attempts}`;
  if (step.deaths) yield `${counted(step.deaths, "attempt")} ended with the death of its conductor; another took it over`;
  if (step.faults) yield `${step.faults} of ${counted(step.tries, "try", "tries")} failed`;
  const log = step.step === "keep_logs" && step.result?.logs?.split("/").pop();
  if (log && mayReadLogs) yield downloadLink(`nodes/${node}/agent-logs/${encodeURIComponent(log)}`, log, "the agent's log");
  if (step.child) yield `on child node ${step.child}`;
  if (step.deadline_at && ["running", "waiting"].includes(step.state)) yield ["it fails ", moment(step.deadline_at)];
}

// The progress of a step: a bar if it is a share, else its facts.
function progress(step) {
  if (!["running", "waiting"].includes(step.state)) return null;
  const { percent, progress_percent: progressPercent, ...facts } = step.progress || {};
  const share = Number(percent ?? progressPercent);
  const entries = Object.entries(facts).filter(([, value]) => typeof value === "number" || (typeof value === "string" && !UUID.test(value)));
  return [
    !Number.isNaN(share) && [element("progress", { max: 100, value: share, "aria-label": "Progress" }), ` ${Math.round(share)} %`],
    entries.length > 0 && element("span.muted", {}, entries.slice(0, 4).map(([name, value]) => ` ${name.replaceAll("_", " ")}: ${value}`).join(",")),
  ];
}

function bar(step, begin, end, now) {
  const from = time(step.started_at);
  const rect = from !== null && drawn("rect", {
    class: KINDS[step.state], y: 2, height: 10, rx: 2,
    x: `${(from - begin) / (end - begin) * 100}%`,
    width: `${Math.max(0.6, ((time(step.finished_at) ?? now) - from) / (end - begin) * 100)}%`,
  });
  return drawn("svg", { class: "bar", "aria-hidden": true, width: "100%", height: 14 }, rect);
}

// The axis of the bars: its begin, middle and end, since the request.
const scale = seconds => element("div.scale", { "aria-hidden": true }, element("span"), element("span"),
  element("span.ticks", {}, [0, seconds / 2, seconds].map(tick => element("span", {}, duration(tick)))), element("span"));

// Return the elements that show an operation with its steps, at the moment `now` in seconds.
// mayReadLogs: whether the caller may read the logs of agents.
export function timeline(operation, now, mayReadLogs) {
  const begin = time(operation.created_at), end = Math.max(time(operation.finished_at) ?? now, begin + 0.5);
  const started = time(operation.started_at);
  const facts = [
    ["requested", moment(operation.created_at)],
    operation.requested_by && ["by", operation.requested_by],
    started && started - begin > 1 && ["waited", duration(started - begin)],
    [operation.finished_at ? "took" : "for", duration(end - begin)],
    operation.sends > 1 && ["messages sent", operation.sends],
    operation.wake_at && !operation.finished_at && ["next look", moment(operation.wake_at)],
  ].filter(Boolean);
  return [
    element("p.row", {},
      element("strong", {}, operation.kind), plain(operation.kind) && element("span.muted", {}, plain(operation.kind)), element(`span.badge.${KINDS[operation.state] || "failed"}`, {}, operation.state),
      operation.aborting && element("span.bad", {}, "aborting"),
      facts.map(([name, value]) => element("span.muted", {}, `${name} `, value))),
    operation.admission && element("p", {}, `Number ${operation.admission.place} of ${operation.admission.queued} in the queue for one of ${operation.admission.limit} slots (${operation.admission.class}).`),
    operation.steps.length
      ? [scale(end - begin), element("ol.timeline", { "aria-label": `Steps of ${operation.kind}` }, operation.steps.map((step, number) => {
        const seconds = step.started_at && (time(step.finished_at) ?? now) - time(step.started_at);
        const remarkParts = [...remarks(step, operation.steps[number - 1], operation.node_uuid, mayReadLogs)];
        return element(`li.${KINDS[step.state] || "far"}`, { "data-state": step.state },
          element("span.name", {}, element("span.mark", { "aria-hidden": true }), element("code", {}, step.interface ? `${step.interface}.${step.step}` : step.step)),
          element("span.state", {}, step.state),
          bar(step, begin, end, now),
          element("span.took", {}, seconds ? duration(Math.max(0, seconds)) : ""),
          element("span.remark", {}, remarkParts.map((remark, index) => [index ? "; " : "", remark]), progress(step),
            step.error && element("span.bad", {}, remarkParts.length ? ": " : "", step.error)));
      }))]
      : empty("This operation has no steps."),
  ];
}
