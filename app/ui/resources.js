// Resources that nodes refer to: lists and forms, made from the OpenAPI document.

import { file } from "./api.js";
import { dialog, notice } from "./dialogs.js";
import { element, empty, failure, replace, table } from "./dom.js";
import { form } from "./forms.js";
import { nodeLink } from "./parts.js";
import { changeable, fieldsOf, kindsOf, patchOf } from "./schemas.js";

const PAGE = 50; // items of one request
const COLUMNS = 6;
const HIDDEN = ["links", "created_at", "updated_at"];

const isScalar = value => value === null || typeof value !== "object";
const formatted = (name, value) => {
  if (value === null || value === undefined || value === "") return "-";
  return name === "node_uuid" ? nodeLink({ node_uuid: value }) : String(value);
};

// Return the columns of a list: name, UUID and node, then the scalars that some item has.
function columnsOf(items) {
  const hasValue = name => items.some(item => item[name] !== null && item[name] !== undefined);
  const names = Object.keys(items[0]).filter(name =>
    !HIDDEN.includes(name) && items.every(item => isScalar(item[name])) && hasValue(name));
  const leading = ["name", "uuid", "node_uuid"].filter(name => names.includes(name));
  return [...leading, ...names.filter(name => !leading.includes(name))].slice(0, COLUMNS);
}

export const page = {
  title: "Resources", path: "/resources", key: "r",
  async show(root, { api, params, keep, signal }) {
    const kinds = kindsOf(await file("../openapi.json"));
    let kind = kinds.find(candidate => candidate.path === params.kind) || kinds[0];
    const list = element("section.card", {});
    const choice = element("select", { name: "kind", onchange: choose },
      kinds.map(option => element("option", { value: option.path, selected: option === kind }, option.title)));
    root.append(
      element("h1", {}, "Resources"),
      element("div.row", {},
        element("label.inline", {}, "Kind", choice),
        element("button.primary", { type: "button", onclick: () => create() }, "Create")),
      list);

    function choose() {
      kind = kinds.find(candidate => candidate.path === choice.value);
      keep("/resources", { kind: kind.path });
      return renew();
    }

    async function renew() {
      const currentKind = kind, items = [];
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
      const columns = columnsOf(items);
      replace(list,
        table(resourceKind.title, [...columns, ""], items.map(item => [
          ...columns.map(name => formatted(name, item[name])),
          element("div.buttons", {},
            action("Edit", item, edit), action("Delete", item, remove, "danger")),
        ])),
        answer.next && element("button", {
          type: "button", onclick: () => readItems(resourceKind, items).catch(error => notice(error.message, "bad")),
        }, "More"));
    }

    const labelOf = item => item.name || item.uuid;
    const action = (label, item, action, style) => element(style ? `button.${style}` : "button", {
      type: "button", "aria-label": `${label} ${labelOf(item)}`,
      onclick: () => action(kind, item).catch(error => notice(error.message, "bad")),
    }, label);

    // Show a form in a dialog; it stays open until `send(values)` has succeeded.
    function askValues(title, label, fields, values, send) {
      const inputs = form(fields, values);
      return dialog(title, inputs.root, [{
        label, kind: "primary",
        act: () => inputs.submit(async inputValues => {
          await send(inputValues);
          notice(`${label}d.`);
          await renew();
        }),
      }]);
    }

    const create = (resourceKind = kind) => askValues(`Create: ${resourceKind.title}`, "Create", fieldsOf(resourceKind.create), {},
      values => api.post(resourceKind.path, values));

    async function edit(resourceKind, item) {
      const path = `${resourceKind.path}/${item.uuid}`;
      const currentItem = await api.get(path, {}, signal);
      const fields = fieldsOf(resourceKind.create).filter(field => changeable(resourceKind).includes(field.name))
        .map(field => ({ ...field, required: false }));
      return askValues(`Change ${labelOf(item)}`, "Change", fields, currentItem,
        values => api.patch(path, patchOf(fields, currentItem, values)));
    }

    const remove = (resourceKind, item) => dialog(`Delete ${labelOf(item)}?`,
      element("p", {}, "It is removed at once, and cannot be restored."),
      [{
        label: "Delete", kind: "danger",
        act: async () => {
          try {
            await api.delete(`${resourceKind.path}/${item.uuid}`);
            notice("Deleted.");
            await renew();
          } catch (error) {
            notice(error.message, "bad");
          }
        },
      }]);

    await renew();
  },
};
