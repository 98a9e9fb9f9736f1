// The holds of a node: badges, list, form, and their changes.

import { dialog, notice, reporting } from "./dialogs.js";
import { element, replace, table } from "./dom.js";
import { moment } from "./facts.js";
import { formDialog } from "./forms.js";

const HOUR = 3600; // seconds

const hours = { name: "hours", type: "number", minimum: 0, description: "until it expires; empty: until it is ended" };
const reason = { name: "reason", type: "string", required: true, maxLength: 4096 };
const kindOf = kinds => ({ name: "kind", type: "string", required: true, options: kinds });
// Return the field of the expiry: in seconds from now, as the clock of this browser may be wrong.
const expiry = values => values.hours === undefined ? { expires_at: null } : { expires_in: Math.ceil(values.hours * HOUR) };
const added = fields => Object.entries(fields).map(([name, value]) => ({ op: "add", path: `/${name}`, value }));
const holderOf = hold => hold.user_name || hold.owner || "unknown";

// The badge of a hold.
export const held = (kind, title = "") => element("span.badge.hold", { title }, `hold: ${kind}`);

// Return the section of a node's holds, which is hidden without holds, and the button that
// sets a hold. kinds: of holds. mayChange: whether the caller may set, change and end them. onChange:
// called after a change.
export function holds(api, uuid, { kinds, mayChange, onChange }) {
  const list = element("div");

  const askValues = (title, fields, values, message, send) => formDialog({ title, fields, values }, async formValues => {
    await send(formValues);
    notice(message);
    onChange();
  });

  const set = () => askValues("Set a hold", [kindOf(kinds), reason, hours], {}, "The hold is set.",
    values => api.post(`nodes/${uuid}/holds`, { kind: values.kind, reason: values.reason, ...expiry(values) }));

  const extend = hold => askValues("Change the hold", [reason, hours], { reason: hold.reason }, "The hold is changed.",
    values => api.patch(`holds/${hold.uuid}`, [
      { op: "replace", path: "/reason", value: values.reason }, ...added(expiry(values)),
    ]));

  const end = hold => dialog("End the hold", `${hold.kind} hold of ${holderOf(hold)}: ${hold.reason}`, [{
    label: "End the hold", kind: "danger",
    act: () => reporting(async () => {
      await api.delete(`holds/${hold.uuid}`);
      notice("The hold is ended.");
      onChange();
    }),
  }]);

  const action = (label, hold, action, style) => element(`button${style}`, {
    type: "button", "aria-label": `${label} the ${hold.kind} hold of ${holderOf(hold)}`, onclick: () => action(hold),
  }, label);

  const section = element("section.card", { "aria-label": "Holds of the node", hidden: true }, element("h2", {}, "Holds"), list);
  return {
    element: section,
    button: element("button", { type: "button", onclick: set }, "Hold"),
    show: nodeHolds => {
      section.hidden = !nodeHolds.length;
      replace(list, table("Holds", ["kind", "reason", "by", "since", "expires", ...(mayChange ? ["actions"] : [])], nodeHolds.map(hold => [
        held(hold.kind), element("span.words", {}, hold.reason), [hold.user_name, hold.owner].filter(Boolean).join(" · "), moment(hold.created_at),
        hold.expires_at ? moment(hold.expires_at) : "when it is ended",
        ...(mayChange ? [element("div.buttons", {}, action("Change", hold, extend, ""), action("End", hold, end, ".danger"))] : []),
      ])));
    },
  };
}
