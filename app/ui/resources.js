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
const shown = (name, value) => {
  if (value === null || value === undefined || value === "") return "-";
  return name === "node_uuid" ? nodeLink({ node_uuid: value }) : String(value);
};

// Columns of a list: name, UUID and node, then other scalars that some item has.
function columnsOf(items) {
  const some = name => items.some(each => each[name] !== null && each[name] !== undefined);
  const names = Object.keys(items[0]).filter(name =>
    !HIDDEN.includes(name) && items.every(each => isScalar(each[name])) && some(name));
  const first = ["name", "uuid", "node_uuid"].filter(name => names.includes(name));
  return [...first, ...names.filter(name => !first.includes(name))].slice(0, COLUMNS);
}

export const page = {
  title: "Resources", path: "/resources", key: "r",
  async show(root, { api, params, keep, signal }) {
    const kinds = kindsOf(await file("../openapi.json"));
    let kind = kinds.find(each => each.path === params.kind) || kinds[0];
    const list = element("section.card", {});
    const choice = element("select", { name: "kind", onchange: choose },
      kinds.map(each => element("option", { value: each.path, selected: each === kind }, each.title)));
    root.append(
      element("h1", {}, "Resources"),
      element("div.row", {},
        element("label.inline", {}, "Kind", choice),
        element("button.primary", { type: "button", onclick: () => create() }, "Create")),
      list);

    function choose() {
      kind = kinds.find(each => each.path === choice.value);
      keep("/resources", { kind: kind.path });
      return renew();
    }

    async function renew() {
      const of = kind, items = [];
      list.setAttribute("aria-label", of.title);
      replace(list, element("p.empty", {}, "Loading…"));
      try {
        await more(of, items);
      } catch (error) {
        if (!signal.aborted && of === kind) replace(list, failure(error));
      }
    }

    // Read the items that follow, and show all.
    async function more(of, items) {
      const marker = items.at(-1)?.uuid;
      const found = await api.get(of.path, { limit: PAGE, marker, detail: of.detail || null }, signal);
      if (signal.aborted || of !== kind) return;
      items.push(...found[of.member]);
      if (!items.length)
        return replace(list, empty(`There are no ${of.title.toLowerCase()} that you may see.`));
      const columns = columnsOf(items);
      replace(list,
        table(of.title, [...columns, ""], items.map(item => [
          ...columns.map(name => shown(name, item[name])),
          element("div.buttons", {},
            action("Edit", item, edit), action("Delete", item, remove, "danger")),
        ])),
        found.next && element("button", {
          type: "button", onclick: () => more(of, items).catch(error => notice(error.message, "bad")),
        }, "More"));
    }

    const called = item => item.name || item.uuid;
    const action = (label, item, act, style) => element(style ? `button.${style}` : "button", {
      type: "button", "aria-label": `${label} ${called(item)}`,
      onclick: () => act(kind, item).catch(error => notice(error.message, "bad")),
    }, label);

    // Show a form in a dialog; it stays open until `send(values)` has succeeded.
    function ask(title, label, fields, values, send) {
      const asked = form(fields, values);
      return dialog(title, asked.root, [{
        label, kind: "primary",
        act: () => asked.submit(async given => {
          await send(given);
          notice(`${label}d.`);
          await renew();
        }),
      }]);
    }

    const create = (of = kind) => ask(`Create: ${of.title}`, "Create", fieldsOf(of.create), {},
      given => api.post(of.path, given));

    async function edit(of, item) {
      const path = `${of.path}/${item.uuid}`;
      const current = await api.get(path, {}, signal);
      const fields = fieldsOf(of.create).filter(each => changeable(of).includes(each.name))
        .map(each => ({ ...each, required: false }));
      return ask(`Change ${called(item)}`, "Change", fields, current,
        given => api.patch(path, patchOf(fields, current, given)));
    }

    const remove = (of, item) => dialog(`Delete ${called(item)}?`,
      element("p", {}, "It is removed at once, and cannot be restored."),
      [{
        label: "Delete", kind: "danger",
        act: async () => {
          try {
            await api.delete(`${of.path}/${item.uuid}`);
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
