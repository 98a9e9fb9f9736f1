// Elements without HTML strings: text is always text, and no element has an inline style.

const SVG = "http://www.w3.org/2000/svg";
//: Attributes that are set as properties, because their attribute is only the initial value.
const PROPERTIES = new Set(["value", "checked", "selected", "indeterminate"]);

function fill(target, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) target.addEventListener(name.slice(2), value);
    else if (PROPERTIES.has(name)) target[name] = value;
    else target.setAttribute(name, value === true ? "" : value);
  }
  target.append(...visible(children));
  return target;
}

const visible = children =>
  children.flat(Infinity).filter(child => child !== undefined && child !== null && child !== false);

// Make an element: element("button.primary", { type: "button", onclick: act }, "Deploy").
export function element(name, attributes, ...children) {
  const [tag, ...classes] = name.split(".");
  const target = document.createElement(tag);
  if (classes.length) target.className = classes.join(" ");
  return fill(target, attributes, children);
}

// Make an SVG element.
export const drawn = (tag, attributes, ...children) =>
  fill(document.createElementNS(SVG, tag), attributes, children);

// Replace the children of an element.
export const replace = (root, ...children) => root.replaceChildren(...visible(children));

// A table of rows, each a list of cells; the first cell of a row is its header. A narrow screen shows
// each row as a list of its cells, with the column's heading beside each.
export function table(caption, heads, rows) {
  const cell = (content, index) => element(index ? "td" : "th", { scope: index ? null : "row", "data-head": heads[index] }, content);
  return element("div.scroll", { tabindex: 0, role: "region", "aria-label": `${caption}: table` },
    element("table.rows", {},
      element("caption", {}, caption),
      element("thead", {}, element("tr", {}, heads.map(heading => element("th", { scope: "col" }, heading)))),
      element("tbody", {}, rows.map(row => element("tr", {}, row.map(cell))))));
}

// A list of facts, rows of a name and a value; those without a value are left out. kind, ofValue: classes.
export const factList = (rows, kind = "", ofValue = "") => element(`dl.facts${kind}`, {}, rows.filter(([, value]) => value)
  .map(([name, value]) => [element("dt", {}, name), element(`dd${ofValue}`, {}, value)]));

// A sentence with commands between backticks.
const withCommands = sentence =>
  sentence.split("`").map((part, index) => (index % 2 ? element("code", {}, part) : part));

// The elements that replace an empty list, and a part that could not be read.
export const empty = sentence => element("p.empty", {}, withCommands(sentence));
export const failure = error =>
  element("div.failure", { role: "alert" }, element("strong", {}, "This could not be read. "), error.message);
