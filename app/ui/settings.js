// The release and the settings of the service: read only, with secrets masked.

import { element, empty, replace, table } from "./dom.js";

const valueOf = value => (value === null || value === "" ? "-" : typeof value === "object" ? JSON.stringify(value) : String(value));

// Return the elements that show the settings; only the changed ones at first.
export function settingsDrawn({ release, settings }) {
  const changed = settings.filter(setting => setting.origin !== "default");
  const root = element("div"), words = element("input", { type: "search", "aria-label": "Find a setting", placeholder: "Find a setting", oninput: draw });
  function draw() {
    const text = words.value.trim().toLowerCase();
    const shown = text ? settings.filter(({ group, name, help }) => `[${group}]${name} ${help}`.toLowerCase().includes(text)) : changed;
    replace(root, shown.length
      ? table("Settings", ["Setting", "Value", "Default", "From", "Meaning"], shown.map(({ group, name, value, default: usual, origin, help }) => [
        element("code", {}, `[${group}]${name}`), element("code", {}, valueOf(value)), element("code", {}, valueOf(usual)), origin,
        element("span.words", {}, help)]))
      : empty(text ? "No setting has these words." : "All settings have their defaults."));
  }
  draw();
  return [
    element("p", {}, "Release ", element("strong", {}, release), `. ${changed.length} of ${settings.length} settings differ from their defaults; these are those of the process that answered.`),
    words, root,
  ];
}
