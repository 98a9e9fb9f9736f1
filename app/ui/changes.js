// What has changed in a time, on one time line: operations, requests and events, with their names.

import { element, empty, failure, replace, table } from "./dom.js";
import { SOURCES } from "./change_sources.js";
import { choices } from "./forms.js";
import { liveness } from "./parts.js";
import { permissions } from "./permissions.js";
import { counted } from "./words.js";

const HOUR = 3_600_000; // milliseconds
//: Range -> its hours.
const RANGES = { "1h": 1, "8h": 8, "24h": 24, "7d": 168 };
const USUAL = "8h", BETWEEN = "between";
const SHOWN = 300; // rows at first, and those that "more" adds

const timeOf = text => new Date(text).getTime();

// The times of a choice, in milliseconds; `until` is null for now.
function rangeOf({ range, from, to }) {
  if (range !== BETWEEN) return { since: Date.now() - RANGES[range] * HOUR, until: null };
  return { since: timeOf(from) || Date.now() - RANGES[USUAL] * HOUR, until: timeOf(to) || null };
}

const nodeCell = node => (node ? element("a", { href: `#/nodes/${node.uuid}` }, node.name || node.uuid) : "-");

export const page = {
  title: "Changes", path: "/changes", key: "h", rule: "event:list",
  async show(root, { api, live, params, keep, signal }) {
    const may = await permissions(api);
    const sources = Object.entries(SOURCES).filter(([, { rule }]) => may(rule));
    const choice = {
      range: params.range === BETWEEN || params.range in RANGES ? params.range : USUAL, from: params.from || "", to: params.to || "",
      node: params.node || "", words: params.words || "", of: params.of || "", steps: params.steps || "",
    };
    const connection = liveness(), content = element("div"), newer = element("button", { type: "button", hidden: true, onclick: () => read() });
    let rows = [], limit = SHOWN, turn = 0, newerCount = 0;

    const shownSources = () => sources.filter(([name]) => !choice.of || choice.of.split(",").includes(name));

    // Read the chosen time again.
    async function read() {
      const mine = ++turn;
      keep(page.path, { ...choice, range: choice.range === USUAL ? "" : choice.range });
      newerCount = 0;
      newer.hidden = true;
      replace(content, element("p.empty", {}, "Reading…"));
      const range = { ...rangeOf(choice), node: choice.node || null, isWhole: Boolean(choice.steps) };
      try {
        if (choice.node) range.uuid = (await api.get(`nodes/${encodeURIComponent(choice.node)}`, { fields: "uuid" }, signal)).uuid;
        const answers = await Promise.all(shownSources().map(([, source]) => source.read(api, range, signal)));
        if (mine !== turn || signal.aborted) return;
        limit = SHOWN;
        rows = answers.flatMap(answer => answer.rows)
          .filter(({ at }) => timeOf(at) >= range.since && (range.until === null || timeOf(at) < range.until))
          .sort((left, right) => timeOf(right.at) - timeOf(left.at));
        draw(answers.map(({ end }) => end).filter(Boolean));
      } catch (error) {
        if (mine === turn && !signal.aborted) replace(content, failure(error));
      }
    }

    let ends = []; // times before which a source was not read
    function draw(newEnds = ends) {
      ends = newEnds;
      const words = choice.words.toLowerCase().split(/\s+/).filter(Boolean);
      const textOf = row => `${row.words} ${row.by} ${row.node?.name || ""} ${row.node?.uuid || ""}`.toLowerCase();
      const matching = words.length ? rows.filter(row => words.every(word => textOf(row).includes(word))) : rows;
      replace(content,
        ends.length > 0 && element("p", {}, `There is more than is shown before ${new Date(Math.max(...ends.map(timeOf))).toLocaleString()}: choose a shorter time, or a node.`),
        element("p.muted", {}, counted(matching.length, "change")),
        matching.length ? table("Changes, the newest first", ["When", "Kind", "Node", "What", "By"], matching.slice(0, limit).map(row => [
          element("time", { datetime: row.at }, new Date(row.at).toLocaleString()), row.kind, nodeCell(row.node), element("span.words", {}, row.what), row.by || "-",
        ])) : empty("Nothing has changed in this time."),
        matching.length > limit && element("button", { type: "button", onclick: () => { limit += SHOWN; draw(); } }, `Show ${SHOWN} more`));
    }

    // Read with another choice; only the words need no request.
    const changed = (name, value) => { choice[name] = value; return name === "words" ? (keep(page.path, choice), draw()) : read(); };
    const input = (name, label, attributes) => element("label", {}, label,
      element("input", { name, value: choice[name], onchange: event => changed(name, event.target.value.trim()), ...attributes }));
    const between = element("span.row", { hidden: choice.range !== BETWEEN },
      input("from", "From", { type: "datetime-local" }), input("to", "To", { type: "datetime-local" }));
    const ranges = element("label", {}, "Time", element("select", {
      name: "range", onchange: event => { between.hidden = event.target.value !== BETWEEN; changed("range", event.target.value); },
    }, [...Object.keys(RANGES), BETWEEN].map(name => element("option", { value: name, selected: name === choice.range },
      name === BETWEEN ? "between…" : `last ${name.replace("h", " hours").replace("d", " days").replace(/^1 hours/, "hour")}`))));
    const titles = Object.fromEntries(sources.map(([name, { title }]) => [name, title]));
    const boxes = choices(titles, choice.of ? choice.of.split(",") : Object.keys(titles), names => changed("of", names.join()));
    const steps = element("label.inline", {}, element("input", {
      type: "checkbox", name: "steps", checked: Boolean(choice.steps), onchange: event => changed("steps", event.target.checked ? "yes" : ""),
    }), "with each step");

    root.append(
      element("div.row", {}, element("h1", {}, "Changes"), connection.element, newer),
      element("form.row.card", { "aria-label": "Which changes", onsubmit: event => event.preventDefault() }, ranges, between,
        input("node", "Node", { placeholder: "name or UUID" }), input("words", "With the words", { oninput: event => changed("words", event.target.value) }), boxes, steps),
      element("section.card", { "aria-label": "Time line" }, content));
    await live.subscribe({}, {
      signal, onReset: () => {}, onState: connection.show,
      onEvents: events => {
        newerCount += events.length;
        newer.textContent = `${counted(newerCount, "newer change")}: show`;
        newer.hidden = choice.range === BETWEEN && Boolean(choice.to);
      },
    });
    await read();
  },
};
