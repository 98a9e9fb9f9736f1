// A table of any number of nodes: only the rows in view are elements.

import { notice } from "./dialogs.js";
import { element, empty, failure, replace } from "./dom.js";
import { badge, moment } from "./facts.js";
import { held } from "./node_holds.js";
import { NodeList } from "./node_list.js";

const HEIGHT = 34; // of a row, in pixels; the style sheet has the same
const BEYOND = 10; // rows that are drawn above and below the view
const STRIDE = 100; // rows of a range that are looked for at once
const flag = value => (value ? "yes" : "");

//: Column -> how its cell is shown; the others show the value.
const CELLS = {
  provision_state: (value, release) => badge(release, value),
  holds: kinds => kinds.map(kind => held(kind)),
  last_error: value => element("span.bad", {}, value || ""),
  maintenance: flag, retired: flag, protected: flag,
  created_at: moment, updated_at: moment, provision_updated_at: moment,
};
//: Columns to choose from, in addition to the name. `true`: the list can be sorted by it.
export const COLUMNS = {
  provision_state: true, target_provision_state: true, power_state: true, maintenance: true, holds: false, fault: true,
  driver: true, resource_class: true, conductor_group: true, conductor: false, owner: true, lessee: true,
  shard: true, instance_uuid: true, instance_name: true, reservation: true, last_error: true,
  maintenance_reason: true, description: true, retired: true, protected: true, uuid: true,
  created_at: true, updated_at: true, provision_updated_at: true,
};

export class NodeTable {
  // known: the facts. query: filters and order. columns: names, in order. selection: see
  // fleet_selection.js. onOrder is called with the column to sort by.
  constructor(root, { known, query, columns, selection, signal, onOrder }) {
    Object.assign(this, { root, known, query, columns, selection, signal, onOrder });
    this.total = this.reading = null; // reading: the list that is being read
    this.stale = false; // the rows in view must be read again
    this.current = 0; // row of the keyboard
    document.addEventListener("keydown", event => this.#key(event), { signal });
  }

  restart() {
    const fields = ["uuid", "name", ...this.columns.filter(column => column !== "uuid")].join(",");
    this.list = new NodeList({ ...this.query, fields }, this.total, this.signal);
    this.stale = false;
    this.current = 0;
    this.above = element("tr", { "aria-hidden": true }, element("td", { colspan: this.columns.length + 2 }));
    this.below = this.above.cloneNode(true);
    this.body = element("tbody");
    this.table = element("table.nodes", { "aria-label": "Nodes" }, element("thead", {}, this.#head()), this.body);
    this.view = element("div.scroll.nodes", { tabindex: 0, role: "region", "aria-label": "Nodes", onscroll: () => this.#scrolled() }, this.table);
    replace(this.root, this.view);
    this.mark();
    return this.#fetch();
  }

  // total: number of nodes that match; null: unknown.
  setTotal(total) {
    this.total = total;
    this.list.setTotal(total);
    this.draw();
    return this.#fetch();
  }

  refresh() {
    this.stale = true;
    return this.#fetch();
  }

  // Draw the rows in view; rows that are not loaded yet are empty.
  draw() {
    const { first: firstRow, last: lastRow } = this.#range(), rows = this.list.length;
    if (this.list.isEmpty) {
      return replace(this.body, element("tr", {}, element("td", { colspan: this.columns.length + 2 },
        empty(Object.keys(this.query).length ? "No node matches the filters." : "No node is enrolled yet: *Enrol* above takes one, `ingot node create` as well."))));
    }
    this.above.style.height = `${firstRow * HEIGHT}px`;
    this.below.style.height = `${Math.max(0, rows - lastRow - 1) * HEIGHT}px`;
    const rowElements = [];
    for (let row = firstRow; row <= lastRow && row < rows; row += 1) rowElements.push(this.#row(row));
    const focused = this.body.contains(document.activeElement) && document.activeElement.closest("tr")?.dataset.uuid;
    replace(this.body, this.above, rowElements, this.below);
    if (focused) this.body.querySelector(`tr[data-uuid="${focused}"] a`)?.focus({ preventScroll: true });
    this.table.setAttribute("aria-rowcount", rows + 1);
    return null;
  }

  #range() {
    const firstRow = Math.max(0, Math.floor(this.view.scrollTop / HEIGHT) - BEYOND);
    return { first: firstRow, last: firstRow + Math.ceil((this.view.clientHeight || 600) / HEIGHT) + 2 * BEYOND };
  }

  #scrolled() {
    if (this.drawing) return;
    this.drawing = requestAnimationFrame(() => {
      this.drawing = null;
      this.draw();
      this.#fetch();
    });
  }

  // Read the rows in view, and draw each page; a call during it changes nothing, as it then reads
  // the rows that are in view by that time.
  async #fetch() {
    const list = this.list;
    if (this.reading === list) return;
    this.reading = list;
    try {
      for (let isIncomplete = true; isIncomplete && list === this.list;) {
        const { first: firstRow, last: lastRow } = this.#range();
        const isStale = this.stale;
        this.stale = false;
        if (isStale) await list.refresh(firstRow, lastRow);
        else isIncomplete = await list.approach(firstRow, lastRow);
        if (isIncomplete && list === this.list) this.draw();
      }
    } catch (error) {
      if (!this.signal.aborted && list === this.list) this.#failed(error);
    } finally {
      if (this.reading === list) this.reading = null;
    }
  }

  #failed(error) {
    replace(this.body, element("tr", {}, element("td", { colspan: this.columns.length + 2 }, failure(error))));
  }

  #head() {
    this.allBox = element("input", {
      type: "checkbox", "aria-label": "Select all nodes that match", title: "Select all nodes that match",
      onchange: () => (this.allBox.checked ? this.selection.all() : this.selection.clear()),
    });
    return element("tr", {}, element("td", {}, element("label.target", {}, this.allBox)), element("th", { scope: "col" }, "node"), this.columns.map(name => {
      const sorted = this.query.sort_key === name && (this.query.sort_dir === "desc" ? "descending" : "ascending");
      const label = name.replaceAll("_", " ");
      return element("th", { scope: "col", "aria-sort": sorted || null }, COLUMNS[name]
        ? element("button.quiet", { type: "button", onclick: () => this.onOrder(name) }, label, sorted ? (sorted === "ascending" ? " ▲" : " ▼") : "")
        : label);
    }));
  }

  #row(row) {
    const node = this.list.at(row);
    if (!node) return element("tr", { "aria-rowindex": row + 2 }, element("td", { colspan: this.columns.length + 2 }, element("span.muted", {}, "…")));
    const name = node.name || node.uuid;
    return element(`tr${row === this.current ? ".current" : ""}`, { "aria-rowindex": row + 2, "data-uuid": node.uuid },
      element("td", {}, element("label.target", {}, element("input", {
        type: "checkbox", "aria-label": `Select ${name}`, checked: this.selection.has(node.uuid),
        onclick: event => this.#select(row, event.shiftKey),
      }))),
      element("th", { scope: "row" }, element("a", { href: `#/nodes/${node.uuid}` }, name)),
      this.columns.map(column => element("td", { title: typeof node[column] === "string" ? node[column] : null },
        (CELLS[column] || (value => value ?? ""))(node[column], this.known))));
  }

  // Select the node of a row, or no longer; with a range, all from the row before to this one.
  async #select(row, isRange) {
    const node = this.list.at(row), start = this.selection.last, list = this.list;
    const hasMoved = list.at(start?.row)?.uuid !== start?.uuid; // nodes were added or deleted
    if (!isRange || start === null || hasMoved) return this.selection.toggle(node, row);
    const [first, last] = [Math.min(start.row, row), Math.max(start.row, row)];
    const isSelected = this.selection.has(start.uuid);
    try {
      for (let from = first; from <= last; from += STRIDE)
        while (await list.approach(from, Math.min(from + STRIDE, last)));
    } catch (error) {
      return notice(error.message, "bad");
    }
    const nodes = Array.from({ length: last - first + 1 }, (_, index) => list.at(first + index)).filter(Boolean);
    return this.selection.set(nodes, isSelected, { row, uuid: node.uuid });
  }

  // Draw the selection again.
  mark() {
    if (!this.body) return;
    const { size, isAll } = this.selection;
    this.allBox.checked = isAll;
    this.allBox.indeterminate = isAll ? this.selection.excluded.size > 0 : size > 0;
    this.draw();
  }

  #key(event) {
    if (event.target.closest("input:not([type=checkbox]), select, textarea, dialog") || event.ctrlKey || event.metaKey) return;
    const node = this.list?.at(this.current);
    const step = { j: 1, k: -1 }[event.key];
    if (step) this.#move(Math.min(Math.max(0, this.current + step), this.list.length - 1));
    else if ((event.key === "x" || event.key === "X") && node) this.#select(this.current, event.shiftKey);
    else if (event.key === "Enter" && node && !event.target.closest("a, button")) location.hash = `#/nodes/${node.uuid}`;
  }

  #move(row) {
    this.current = row;
    const top = row * HEIGHT, { scrollTop, clientHeight } = this.view;
    if (top < scrollTop) this.view.scrollTop = top;
    else if (top + 2 * HEIGHT > scrollTop + clientHeight) this.view.scrollTop = top + 2 * HEIGHT - clientHeight;
    this.draw();
  }
}
