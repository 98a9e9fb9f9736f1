// The service: health of its parts, conductors and their load, the ring, queues, takeovers.

import { element, empty, table } from "./dom.js";
import { drainButton, drainOf } from "./drains.js";
import { duration } from "./facts.js";
import { gathered } from "./live.js";
import { badge, fleetLink, nodeLink, part } from "./parts.js";
import { permissions } from "./permissions.js";
import { settingsDrawn } from "./settings.js";
import { age, repeat, ticking } from "./times.js";

const INTERVAL = 5000; // milliseconds between two reads; heartbeats are no events

const groupName = group => group || "the default group";

const healthDrawn = ({ parts, flower_url: flower }) => [
  element("dl.facts", {}, parts.map(part => [
    element("dt", {}, part.part),
    element("dd", { "data-part": part.part },
      element(part.healthy ? "span.good" : "span.bad", {}, part.healthy ? "healthy" : part.reason),
      " ", element("span.muted", {}, part.details)),
  ])),
  flower && element("p", {}, element("a", { href: flower, rel: "noopener noreferrer" }, "Tasks in Flower")),
];

const load = conductor => element("span.row", {},
  element("meter", {
    min: 0, max: conductor.threads, value: conductor.holds.running, high: conductor.threads * 0.9,
    "aria-label": `Busy threads of ${conductor.hostname}`,
  }), `${conductor.holds.running} of ${conductor.threads}`);

// drainButton: a function of the service and a conductor; null for a caller who must not drain.
const conductorsDrawn = drainButton => service => service.conductors.length
  ? table("Conductors", [
    "Name", "Group", "State", "Nodes", "Threads", "Waiting", "Queued", "Messages", "Oldest", "Heartbeat",
    ...(drainButton ? ["Drain"] : []),
  ], service.conductors.map(conductor => [
    element("code", {}, conductor.hostname), groupName(conductor.conductor_group),
    [badge(conductor.state), " ", drainOf(conductor), conductor.impediment],
    conductor.nodes ? fleetLink({ conductor: conductor.hostname }, conductor.nodes) : 0,
    load(conductor), conductor.holds.waiting + conductor.holds.held, conductor.holds.queued, conductor.messages ?? "-",
    conductor.oldest_message_seconds === null ? "-" : duration(conductor.oldest_message_seconds),
    `${duration(conductor.heartbeat_seconds)} ago`,
    ...(drainButton ? [drainButton(service, conductor)] : []),
  ]))
  : empty("No conductor has been started: `ingot conductor` starts one.");

const ringDrawn = ({ ring }) => ring.length
  ? table("Nodes and the conductors that divide them", ["Driver", "Group", "Nodes", "Conductors"],
    ring.map(share => [
      share.driver, groupName(share.conductor_group),
      fleetLink({ driver: share.driver, conductor_group: share.conductor_group }, share.nodes),
      share.conductors.length
        ? share.conductors.join(", ")
        : element("span.bad", {}, "none is alive: these nodes cannot be managed"),
    ]))
  : empty("There are no nodes yet.");

const queuesDrawn = ({ queues }) => queues.length
  ? table("Admission queues", ["Limit", "Group", "Waiting", "Slots", "Oldest"],
    queues.map(queue => [
      queue.class, groupName(queue.conductor_group), queue.queued, queue.limit, age(queue.oldest_at),
    ]))
  : empty("No operation waits for a slot.");

const takeoversDrawn = ({ takeovers }) => takeovers.length
  ? table("Steps whose conductor died or hung, the newest first",
    ["Node", "Operation", "State", "Step", "Times", "Conductor now", "Begun"],
    takeovers.map(step => [
      nodeLink(step), step.kind, badge(step.state), element("code", {}, step.step), step.times,
      step.conductor || "-", [age(step.started_at), " ago"],
    ]))
  : empty("No conductor has died or hung in a recent step.");

const periodicDrawn = ({ periodic_tasks: tasks }) => tasks.length
  ? table("Periodic tasks, and the time since their last completed pass",
    ["Task", "Conductor", "Completed", "At the latest", "Without it"],
    tasks.map(task => [
      element("code", {}, task.task), task.conductor || "any",
      element(task.healthy ? "span.good" : "span.bad", { "data-late": task.healthy ? null : task.task },
        `${duration(task.completed_seconds)} ago`),
      duration(task.bound_seconds), task.without,
    ]))
  : empty("No beat has led yet: `ingot beat` starts one.");

export const page = {
  title: "Service", path: "/conductors", key: "c", rule: "service:get",
  async show(root, { api, signal }) {
    const may = await permissions(api);
    const drains = may("conductor:drain") ? (...args) => drainButton(api, ...args, () => renewSoon()) : null;
    let state = null; // one read of the service for all its parts
    const part_ = (title, draw) => part(title, () => state, draw, signal);
    const ofService = [
      part_("Health", healthDrawn), part_("Conductors", conductorsDrawn(drains)), part_("Ring", ringDrawn),
      part_("Periodic tasks", periodicDrawn), part_("Takeovers", takeoversDrawn),
    ];
    const queues = part("Queues", () => api.get("operations/queues", {}, signal), queuesDrawn, signal);
    const settings = part("Release and settings", () => api.get("service/settings", {}, signal), settingsDrawn, signal);
    root.append(element("h1", {}, "Service"), ...ofService.slice(0, 3), queues, ...ofService.slice(3), settings);
    void settings.renew(); // they do not change while the service runs
    const renew = async () => {
      state = api.get("service", {}, signal);
      await Promise.all([...ofService, queues].map(card => card.renew()));
    };
    const renewSoon = gathered(renew, 0, signal);
    repeat(INTERVAL, renewSoon, signal);
    ticking(root, signal);
    await renew();
  },
};
