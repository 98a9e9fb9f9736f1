// The service: health of its parts, conductors and their load, the ring, queues, takeovers.

import { element, empty, table } from "./dom.js";
import { duration } from "./facts.js";
import { gathered } from "./live.js";
import { badge, fleetLink, nodeLink, part } from "./parts.js";
import { age, ticking } from "./times.js";

const INTERVAL = 5000; // milliseconds between two reads; heartbeats are no events

const whole = group => group || "the default group";

const healthDrawn = ({ parts, flower_url: flower }) => [
  element("dl.facts", {}, parts.map(each => [
    element("dt", {}, each.part),
    element("dd", { "data-part": each.part },
      element(each.healthy ? "span.good" : "span.bad", {}, each.healthy ? "healthy" : each.reason),
      " ", element("span.muted", {}, each.details)),
  ])),
  flower && element("p", {}, element("a", { href: flower, rel: "noopener noreferrer" }, "Tasks in Flower")),
];

const load = each => element("span.row", {},
  element("meter", {
    min: 0, max: each.threads, value: each.holds.running, high: each.threads * 0.9,
    "aria-label": `Busy threads of ${each.hostname}`,
  }), `${each.holds.running} of ${each.threads}`);

const conductorsDrawn = ({ conductors }) => conductors.length
  ? table("Conductors", [
    "Name", "Group", "State", "Nodes", "Threads", "Waiting", "Queued", "Messages", "Oldest", "Heartbeat",
  ], conductors.map(each => [
    element("code", {}, each.hostname), whole(each.conductor_group), [badge(each.state), " ", each.impediment || ""],
    each.nodes ? fleetLink({ conductor: each.hostname }, each.nodes) : 0,
    load(each), each.holds.waiting + each.holds.held, each.holds.queued, each.messages ?? "-",
    each.oldest_message_seconds === null ? "-" : duration(each.oldest_message_seconds),
    `${duration(each.heartbeat_seconds)} ago`,
  ]))
  : empty("No conductor has been started: `ingot conductor` starts one.");

const ringDrawn = ({ ring }) => ring.length
  ? table("Nodes and the conductors that divide them", ["Driver", "Group", "Nodes", "Conductors"],
    ring.map(each => [
      each.driver, whole(each.conductor_group),
      fleetLink({ driver: each.driver, conductor_group: each.conductor_group }, each.nodes),
      each.conductors.length
        ? each.conductors.join(", ")
        : element("span.bad", {}, "none is alive: these nodes cannot be managed"),
    ]))
  : empty("There are no nodes yet.");

const queuesDrawn = ({ queues }) => queues.length
  ? table("Admission queues", ["Limit", "Group", "Waiting", "Slots", "Oldest"],
    queues.map(each => [
      each.class, whole(each.conductor_group), each.queued, each.limit, age(each.oldest_at),
    ]))
  : empty("No operation waits for a slot.");

const takeoversDrawn = ({ takeovers }) => takeovers.length
  ? table("Steps whose conductor died or hung, the newest first",
    ["Node", "Operation", "State", "Step", "Times", "Conductor now", "Begun"],
    takeovers.map(each => [
      nodeLink(each), each.kind, badge(each.state), element("code", {}, each.step), each.times,
      each.conductor || "-", [age(each.started_at), " ago"],
    ]))
  : empty("No conductor has died or hung in a recent step.");

const periodicDrawn = ({ periodic_tasks: tasks }) => tasks.length
  ? table("Periodic tasks, and the time since their last completed pass",
    ["Task", "Conductor", "Completed", "At the latest", "Without it"],
    tasks.map(each => [
      element("code", {}, each.task), each.conductor || "any",
      element(each.healthy ? "span.good" : "span.bad", { "data-late": each.healthy ? null : each.task },
        `${duration(each.completed_seconds)} ago`),
      duration(each.bound_seconds), each.without,
    ]))
  : empty("No beat has led yet: `ingot beat` starts one.");

export const page = {
  title: "Conductors", path: "/conductors", key: "c",
  async show(root, { api, signal }) {
    let state = null; // one read of the service for all its parts
    const part_ = (title, drawn) => part(title, () => state, drawn, signal);
    const ofService = [
      part_("Health", healthDrawn), part_("Conductors", conductorsDrawn), part_("Ring", ringDrawn),
      part_("Periodic tasks", periodicDrawn), part_("Takeovers", takeoversDrawn),
    ];
    const queues = part("Queues", () => api.get("operations/queues", {}, signal), queuesDrawn, signal);
    root.append(element("h1", {}, "Conductors"), ...ofService.slice(0, 3), queues, ...ofService.slice(3));
    const renew = async () => {
      state = api.get("service", {}, signal);
      await Promise.all([...ofService, queues].map(each => each.renew()));
    };
    const soon = gathered(renew, 0, signal);
    const timer = setInterval(() => document.hidden || soon(), INTERVAL);
    const ended = ticking(root);
    signal.addEventListener("abort", () => { clearInterval(timer); ended(); });
    await renew();
  },
};
