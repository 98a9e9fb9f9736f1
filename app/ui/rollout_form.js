// The form of a rollout: its nodes, verb and strategy, and the plan of waves before it is started.

import { file } from "./api.js";
import { dialog, notice } from "./dialogs.js";
import { element, failure, replace, table } from "./dom.js";
import { form } from "./forms.js";
import { bodySchema, fieldsOf, propertySchema } from "./schemas.js";
import { verbArguments } from "./verb_arguments.js";
import { counted, withPlain } from "./words.js";

const SHOWN = 10; // waves, and excluded nodes
//: Fields of a strategy that are not folded.
const FIRST = ["max_unavailable", "canary", "error_budget", "group_by"];

// A random UUID, with which a repeated request creates no second rollout; `crypto.randomUUID` needs TLS.
function newUuid() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  bytes[6] = (bytes[6] & 0x0f) | 0x40;
  bytes[8] = (bytes[8] & 0x3f) | 0x80;
  return [...bytes].map(byte => byte.toString(16).padStart(2, "0")).join("").replace(/^(.{8})(.{4})(.{4})(.{4})/, "$1-$2-$3-$4-");
}

const named = nodes => nodes.map(node => node.node_name || node.node_uuid).join(", ");

// The plan of a dry run: its waves and the nodes that take no part.
function planned(plan) {
  const waves = new Map();
  for (const node of plan.nodes) waves.set(node.wave, [...(waves.get(node.wave) || []), node]);
  return [
    element("p", {}, element("strong", {}, `${counted(plan.included, "node")} in ${counted(plan.waves, "wave")}, ${plan.excluded} excluded; it pauses at ${counted(plan.error_budget, "failed node")}.`)),
    waves.size > 0 && table("Waves", ["Wave", "Nodes", "Names"], [...waves].slice(0, SHOWN).map(([wave, nodes]) => [
      wave <= plan.canary_waves ? `${wave} (canary)` : wave, nodes.length, element("span.words", {}, named(nodes.slice(0, 8)), nodes.length > 8 && ", …"),
    ])),
    waves.size > SHOWN && element("p.muted", {}, `and ${plan.waves - SHOWN} more waves`),
    plan.excluded > 0 && table("Excluded", ["Node", "Reason"], plan.excluded_nodes.slice(0, SHOWN).map(node => [
      named([node]), element("span.words", {}, node.reason)])),
    plan.excluded > SHOWN && element("p.muted", {}, `and ${plan.excluded - SHOWN} more excluded nodes`),
  ];
}

// Show the form. filters: of the list of nodes. target: initial verb. onCreated: called with the rollout.
export async function createRollout(api, release, { filters, target }, onCreated) {
  const document_ = await file("../openapi.json");
  const schema = bodySchema(document_, "/v1/rollouts", "post");
  const strategyFields = fieldsOf(propertySchema(document_, schema, "strategy")).map(field => ({
    ...field, type: field.type === "json" && field.name !== "windows" ? "string" : field.type, folded: !FIRST.includes(field.name),
  }));
  const targets = schema.properties.target.enum.filter(name => !["active", "undeploy"].includes(name));
  const uuid = newUuid();
  const select = element("select", { name: "target", onchange: showArguments },
    element("option", { value: "" }, "Choose…"),
    targets.map(name => element("option", { value: name, selected: name === target }, withPlain(name))));
  const where = element("input", { name: "where", value: filters.where || "", autocomplete: "off", spellcheck: "false" });
  const others = Object.entries(filters).filter(([name]) => name !== "where");
  const description = element("input", { name: "description", autocomplete: "off" });
  const argumentsRoot = element("div"), plan = element("div.plan", { "aria-live": "polite" });
  const strategy = form(strategyFields, {});
  let argumentForm = null, acceptedRequest = null;

  function showArguments() {
    const facts = release.verbs[select.value];
    argumentForm = facts ? verbArguments(api, facts, { isKept: true }) : null;
    replace(argumentsRoot, argumentForm?.elements);
    acceptedRequest = null;
    replace(plan);
  }

  const body = strategyValues => ({
    target: select.value, nodes: { ...Object.fromEntries(others), ...(where.value.trim() && { where: where.value.trim() }) },
    strategy: strategyValues, ...(description.value && { description: description.value }), ...argumentForm?.body(),
  });

  async function dryRun(strategyValues) {
    acceptedRequest = null;
    replace(plan, element("p.muted", {}, "Asking…"));
    const request = body(strategyValues);
    const answer = await api.post("rollouts", { ...request, dry_run: true }).catch(error => { replace(plan); throw error; });
    if (answer.included) acceptedRequest = JSON.stringify(request);
    replace(plan, planned(answer));
    plan.scrollIntoView({ block: "nearest" });
  }

  // Call `action` with the values of the strategy; show its error. Return whether the dialog is over.
  async function tried(action) {
    let isOver = false;
    try {
      if (!select.value) throw new Error("Choose what the nodes are asked to do.");
      await strategy.submit(async values => { isOver = await action(values); });
    } catch (error) {
      replace(plan, failure(error));
    }
    return isOver;
  }

  const start = values => {
    if (acceptedRequest !== JSON.stringify(body(values))) return dryRun(values).then(() => false); // only a shown plan may be started
    return api.post("rollouts", { uuid, ...body(values) }).then(rollout => {
      notice("The rollout is started.");
      onCreated(rollout);
      return true;
    });
  };

  showArguments();
  return dialog("Roll out", [
    element("p.muted", {}, "The nodes get the verb in waves. It pauses by itself when too many fail."),
    element("div.fields", {},
      element("label", {}, "Verb or power state", select), element("label", {}, "Nodes (expression; empty: all)", where),
      others.length > 0 && element("p", {}, `and ${others.map(([name, value]) => `${name} = ${value}`).join(", ")}`),
      element("label", {}, "Description (optional)", description)),
    argumentsRoot, strategy.root, plan,
  ], [
    { label: "Dry run", act: () => tried(values => dryRun(values).then(() => false)) },
    { label: "Start the rollout", kind: "primary", act: () => tried(start) },
  ]);
}
