// Resources that nodes refer to: lists and forms, made from the OpenAPI document.

import { file } from "./api.js";
import { dialog, notice, reporting } from "./dialogs.js";
import { element, empty, failure, replace, table } from "./dom.js";
import { formDialog } from "./forms.js";
import { nodeLink } from "./parts.js";
import { passed } from "./permissions.js";
import { changeable, fieldsOf, kindsOf, patchOf } from "./schemas.js";
import { showFailures } from "./webhook_failures.js";

const PAGE = 50; // items of one request
const COLUMNS = 6;
const HIDDEN = ["links", "created_at", "updated_at"];
//: Fields of forms that few need.
const FOLDED = ["uuid", "extra"];

const isScalar = value => value === null || typeof value !== "object";
const formatted = (name, value, nodeNames) => {
  if (value === null || value === undefined || value === "") return "-";
  return name === "node_uuid" ? nodeLink({ node_uuid: value, node_name: nodeNames.get(value) }) : String(value);
};

// Return UUID -> name of the nodes that items refer to.
async function namesOfNodes(api, items, signal) {
  const uuids = [...new Set(items.map(item => item.node_uuid).filter(Boolean))];
  const names = new Map();
  for (let start = 0; start < uuids.length; start += PAGE) {
    const where = `uuid in (${uuids.slice(start, start + PAGE).join(",")})`;
    const { nodes } = await api.get("nodes", { where, fields: "uuid,name", limit: PAGE }, signal);
    for (const { uuid, name } of nodes) names.set(uuid, name);
  }
  return names;
}

const formFields = schema => fieldsOf(schema).map(field => ({ ...field, folded: FOLDED.includes(field.name) }));

// Return the columns of a list: its name or address, the node, then the scalars that some item has, the
// UUID last.
function columnsOf(items) {
  const hasValue = name => items.some(item => item[name] !== null && item[name] !== undefined);
  const names = Object.keys(items[0]).filter(name =>
    !HIDDEN.includes(name) && items.every(item => isScalar(item[name])) && hasValue(name));
  const leading = ["name", "address", "node_uuid"].filter(name => names.includes(name));
  const others = names.filter(name => !leading.includes(name) && name !== "uuid");
  return [...leading, ...others].slice(0, COLUMNS - 1).concat("uuid");
}

export const page = {
  title: "Resources", path: "/resources", key: "r",
  async show(root, { api, params, keep, signal }) {
    const kinds = kindsOf(await file("../openapi.json"));
    const rules = kinds.flatMap(candidate => Object.values(candidate.rules));
    const mayRule = await passed(api, { rules: [...new Set(rules)].join() }, signal);
    const may = (resourceKind, act) => mayRule(resourceKind.rules[act]);
    let kind = kinds.find(candidate => candidate.path === params.kind) || kinds[0];
    const list = element("section.card", {});
    const createButton = element("button.primary", { type: "button", onclick: () => create() }, "Create");
    const choice = element("select", { name: "kind", onchange: choose },
      kinds.map(option => element("option", { value: option.path, selected: option === kind }, option.title)));
    root.append(
      element("h1", {}, "Resources"),
      element("div.row", {},
        element("label.inline", {}, "Kind", choice),
        createButton),
      list);

    function choose() {
      kind = kinds.find(candidate => candidate.path === choice.value);
      keep("/resources", { kind: kind.path });
      return renew();
    }

    async function renew() {
      const currentKind = kind, items = [];
      createButton.hidden = !may(kind, "create");
      list.setAttribute("aria-label", currentKind.title);
      replace(list, element("p.empty", {}, "Loading…"));
      try {
        await readItems(currentKind, items);
      } catch (error) {
        if (!signal.aborted && currentKind === kind) replace(list, failure(error));
      }
    }

    // Read the items that follow, and show all.
    async function readItems(resourceKind, items) {
      const marker = items.at(-1)?.uuid;
      const answer = await api.get(resourceKind.path, { limit: PAGE, marker, detail: resourceKind.detail || null }, signal);
      if (signal.aborted || resourceKind !== kind) return;
      items.push(...answer[resourceKind.member]);
      if (!items.length)
        return replace(list, empty(`There are no ${resourceKind.title.toLowerCase()} that you may see.`));
      const columns = columnsOf(items), nodeNames = await namesOfNodes(api, items, signal);
      replace(list,
        table(resourceKind.title, [...columns.map(name => name.replace("node_uuid", "node").replaceAll("_", " ")), "actions"], items.map(item => [
          ...columns.map(name => formatted(name, item[name], nodeNames)),
          element("div.buttons", {},
            resourceKind.path === "webhooks" && action("Failures", item, (_kind, webhook) => showFailures(api, webhook, may(resourceKind, "change"))),
            may(resourceKind, "change") && action("Edit", item, edit),
            may(resourceKind, "remove") && action("Delete", item, remove, "danger")),
        ])),
        answer.next && element("button", { type: "button", onclick: () => reporting(() => readItems(resourceKind, items)) }, "More"));
    }

    const labelOf = item => item.name || item.uuid;
    const action = (label, item, action, style) => element(style ? `button.${style}` : "button", {
      type: "button", "aria-label": `${label} ${labelOf(item)}`,
      onclick: () => reporting(() => action(kind, item)),
    }, label);

    const askValues = (title, label, fields, values, send) => formDialog({ title, label, fields, values }, async formValues => {
      await send(formValues);
      notice(`${label}d.`);
      await renew();
    });

    const create = (resourceKind = kind) => askValues(`Create: ${resourceKind.title}`, "Create", formFields(resourceKind.create), {},
      values => api.post(resourceKind.path, values));

    async function edit(resourceKind, item) {
      const path = `${resourceKind.path}/${item.uuid}`;
      const currentItem = await api.get(path, {}, signal);
      const fields = formFields(resourceKind.create).filter(field => changeable(resourceKind).includes(field.name))
        .map(field => ({ ...field, required: false }));
      return askValues(`Change ${labelOf(item)}`, "Change", fields, currentItem,
        values => api.patch(path, patchOf(fields, currentItem, values)));
    }

    const remove = (resourceKind, item) => dialog(`Delete ${labelOf(item)}?`,
      element("p", {}, "It is removed at once, and cannot be restored."),
      [{
        label: "Delete", kind: "danger",
        act: () => reporting(async () => {
          await api.delete(`${resourceKind.path}/${item.uuid}`);
          notice("Deleted.");
          await renew();
        }),
      }]);

    await renew();
  },
};
