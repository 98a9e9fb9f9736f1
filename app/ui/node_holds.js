// The holds of a node: badges, list, form, and their changes.

import { dialog, notice } from "./dialogs.js";
import { element, replace, table } from "./dom.js";
import { moment } from "./facts.js";
import { form } from "./forms.js";

const HOUR = 3600; // seconds

const hours = { name: "hours", type: "number", minimum: 0, description: "until it expires; empty: until it is ended" };
const reason = { name: "reason", type: "string", required: true, maxLength: 4096 };
const kindOf = kinds => ({ name: "kind", type: "string", required: true, options: kinds });
// Return the field of the expiry: in seconds from now, as the clock of this browser may be wrong.
const expiry = given => given.hours === undefined ? { expires_at: null } : { expires_in: Math.ceil(given.hours * HOUR) };
const added = fields => Object.entries(fields).map(([name, value]) => ({ op: "add", path: `/${name}`, value }));
const who = hold => hold.user_name || hold.owner || "unknown";

// The badge of a hold.
export const held = (kind, title = "") => element("span.badge.hold", { title }, `hold: ${kind}`);

// Return the section of a node's holds, which is hidden while there are none, and the button that
// sets one. kinds: of holds. done: called after a change.
export function holds(api, uuid, kinds, done) {
  const list = element("div");

  // Show a form in a dialog; it stays open until `send(values)` has succeeded.
  function ask(title, fields, values, words, send) {
    const asked = form(fields, values);
    return dialog(title, asked.root, [{
      label: title, kind: "primary",
      act: () => asked.submit(async given => {
        await send(given);
        notice(words);
        done();
      }),
    }]);
  }

  const set = () => ask("Set a hold", [kindOf(kinds), reason, hours], {}, "The hold is set.",
    given => api.post(`nodes/${uuid}/holds`, { kind: given.kind, reason: given.reason, ...expiry(given) }));

  const extend = hold => ask("Change the hold", [reason, hours], { reason: hold.reason }, "The hold is changed.",
    given => api.patch(`holds/${hold.uuid}`, [
      { op: "replace", path: "/reason", value: given.reason }, ...added(expiry(given)),
    ]));

  const end = hold => dialog("End the hold", `${hold.kind} hold of ${who(hold)}: ${hold.reason}`, [{
    label: "End the hold", kind: "danger",
    act: async () => {
      try {
        await api.delete(`holds/${hold.uuid}`);
        notice("The hold is ended.");
        done();
      } catch (error) {
        notice(error.message, "bad");
      }
    },
  }]);

  const action = (label, hold, act, style) => element(`button${style}`, {
    type: "button", "aria-label": `${label} the ${hold.kind} hold of ${who(hold)}`, onclick: () => act(hold),
  }, label);

  const section = element("section.card", { "aria-label": "Holds of the node", hidden: true }, element("h2", {}, "Holds"), list);
  return {
    element: section,
    button: element("button", { type: "button", onclick: set }, "Hold"),
    show: found => {
      section.hidden = !found.length;
      replace(list, table("Holds", ["kind", "reason", "by", "since", "expires", ""], found.map(each => [
        held(each.kind), element("span.words", {}, each.reason), [each.user_name, each.owner].filter(Boolean).join(" · "), moment(each.created_at),
        each.expires_at ? moment(each.expires_at) : "when it is ended",
        element("div.buttons", {}, action("Change", each, extend, ""), action("End", each, end, ".danger")),
      ])));
    },
  };
}
