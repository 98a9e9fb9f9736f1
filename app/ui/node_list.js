// The nodes of a list: the pages in view, read from whichever end of the list is nearer.

import { api } from "./api.js";

const SIZE = 200; // nodes of a page
const STRIDE = 1000; // nodes that one request passes over

// Pages from one end of a list, by their number. Pages between are passed over: of them only the
// markers are read.
class Run {
  // read: returns the document of the list with more parameters.
  constructor(readList) {
    Object.assign(this, { read: readList, pages: [], markers: [undefined], length: null });
  }

  at(row) {
    return this.pages[Math.floor(row / SIZE)]?.[row % SIZE];
  }

  // Nodes to pass over before the page of a row.
  distance(row) {
    return Math.max(0, row - (this.markers.length - 1) * SIZE);
  }

  has(row) {
    return Boolean(this.at(row)) || (this.length !== null && row >= this.length);
  }

  // Come nearer to a row that it does not have, by one step.
  async approach(row) {
    const number = Math.floor(row / SIZE), knownPages = this.markers.length - 1;
    if (number <= knownPages) return this.readPage(number);
    return number > knownPages + 1 ? this.#pass(knownPages) : this.readPage(knownPages);
  }

  // Read a page. Later pages stay if it ends with the same node as before.
  async readPage(number) {
    const { nodes, ended: isEnd } = await this.#nodes(this.markers[number], SIZE);
    const lastUuid = nodes.at(-1)?.uuid;
    if (isEnd || this.markers[number + 1] !== lastUuid) {
      this.markers.length = number + 1;
      this.pages.length = Math.min(this.pages.length, number);
      this.length = isEnd ? number * SIZE + nodes.length : null;
    }
    this.pages[number] = nodes;
    if (!isEnd) this.markers[number + 1] = lastUuid;
  }

  async #pass(pageNumber) {
    const { nodes, ended: isEnd } = await this.#nodes(this.markers[pageNumber], STRIDE, "uuid");
    for (let count = SIZE; count <= nodes.length; count += SIZE) this.markers.push(nodes[count - 1].uuid);
    if (isEnd) this.length = pageNumber * SIZE + nodes.length;
  }

  // A server may send fewer nodes at once than it is asked for.
  async #nodes(marker, count, fields) {
    const nodes = [];
    for (;;) {
      const answer = await this.read({ marker, limit: count - nodes.length, ...(fields && { fields }) });
      nodes.push(...answer.nodes);
      if (!answer.next || nodes.length >= count) return { nodes, ended: !answer.next };
      marker = new URL(answer.next).searchParams.get("marker");
    }
  }
}

export class NodeList {
  // query: filters, sort key and fields of the list. total: nodes of the list; null: unknown.
  constructor(query, total, signal) {
    Object.assign(this, { query, total, signal });
    this.#begin();
  }

  // Without a known end, the length is the counted total, or more than the rows that were read.
  get length() {
    return this.first.length ?? Math.max(this.total ?? 0, (this.first.markers.length - 1) * SIZE + 1);
  }

  get isEmpty() {
    return this.first.length === 0;
  }

  at(row) {
    return this.first.at(row) ?? this.last.at(this.#fromEnd(row));
  }

  // Another total moves the rows that are counted from the end, and may move the end.
  setTotal(total) {
    if (total === this.total) return;
    this.total = total;
    this.first.length = null;
    this.last = this.#run(true);
  }

  // Read one page, or pass over pages, towards the rows of a range; return false if they are read.
  async approach(firstRow, lastRow) {
    if (this.isEmpty) return false;
    const end = this.length - 1;
    const gap = this.#missing(Math.min(firstRow, end)) ?? this.#missing(Math.min(lastRow, end));
    if (gap) await this.#marked(() => gap.run.approach(gap.row));
    return Boolean(gap);
  }

  // Read the pages of some rows again.
  async refresh(firstRow, lastRow) {
    for (const run of [this.first, this.last]) {
      const [lowRow, highRow] = run === this.first ? [firstRow, lastRow] : [this.#fromEnd(lastRow), this.#fromEnd(firstRow)];
      for (let number = Math.max(0, Math.floor(lowRow / SIZE)); number <= Math.floor(highRow / SIZE); number += 1)
        if (run.pages[number]) await this.#marked(() => run.readPage(number));
    }
  }

  #begin() {
    this.first = this.#run(false);
    this.last = this.#run(true);
  }

  #run(reversed) {
    const { sort_dir } = this.query;
    const query = reversed ? { ...this.query, sort_dir: sort_dir === "desc" ? "asc" : "desc" } : this.query;
    return new Run(page => api.get("nodes", { ...query, ...page }, this.signal));
  }

  #fromEnd(row) {
    return this.total === null ? -1 : this.total - 1 - row;
  }

  // Return the nearer run, and its row, of a row that is not read; null for a row that is read, or
  // beyond the end.
  #missing(row) {
    const fromEnd = this.#fromEnd(row);
    if (this.first.has(row) || this.last.at(fromEnd)) return null;
    const nearFirst = fromEnd < 0 || this.last.has(fromEnd) || this.first.distance(row) <= this.last.distance(fromEnd);
    return nearFirst ? { run: this.first, row } : { run: this.last, row: fromEnd };
  }

  // Send a request with a marker; start again if the node of the marker was deleted.
  async #marked(action) {
    const hasMarkers = this.first.markers.length + this.last.markers.length > 2;
    try {
      await action();
    } catch (error) {
      if (error.status !== 404 || !hasMarkers) throw error;
      this.#begin();
    }
  }
}
