// The events that the receiver of a webhook did not accept, and posting them again.

import { dialog, notice } from "./dialogs.js";
import { element, empty, factList, failure, replace, table } from "./dom.js";
import { moment } from "./facts.js";

// Show the failures of a webhook. mayReplay: whether the caller may post the events again.
export async function showFailures(api, webhook, mayReplay) {
  const path = `webhooks/${webhook.uuid}`, content = element("div");
  const [whole, { failures }] = await Promise.all([api.get(path), api.get(`${path}/failures`)]);
  const facts = [
    ["posts to", whole.url], ["enabled", whole.enabled ? "yes" : "no"],
    ["failing since", whole.failing_since && moment(whole.failing_since)], ["failed attempts", whole.failed_attempts],
    ["last error", whole.last_error], ["last delivery", whole.last_delivery_at && moment(whole.last_delivery_at)],
  ];
  replace(content,
    factList(facts),
    failures.length
      ? table("Events that were given up", ["When", "After number", "Up to", "Error"], failures.map(item =>
        [moment(item.created_at), item.after, item.last, element("span.words", {}, item.error)]))
      : empty("No events were given up."));
  return dialog(`Failures of ${webhook.name || webhook.uuid}`, content, failures.length && mayReplay ? [{
    label: "Post them again", kind: "primary",
    act: async () => {
      try {
        await api.post(`${path}/replay`, {});
        notice("The events are posted again, from the oldest failure on.");
        return true;
      } catch (error) {
        content.append(failure(error));
        return false;
      }
    },
  }] : []);
}
