// The nodes of a list, read page by page as far as they are needed.

import { api } from "./api.js";

export const SIZE = 200; // nodes of a page

export class NodeList {
  // query: filters, sort key and fields of the list.
  constructor(query, signal) {
    Object.assign(this, { query, signal, pages: [], ended: false, reading: null });
  }

  get loaded() {
    return this.pages.length ? (this.pages.length - 1) * SIZE + this.pages.at(-1).length : 0;
  }

  at(row) {
    return this.pages[Math.floor(row / SIZE)]?.[row % SIZE];
  }

  // Read on until `row` is loaded, or the list ends. Return whether anything was read.
  async reach(row) {
    this.wanted = Math.max(this.wanted || 0, row);
    if (this.reading) return this.reading;
    this.reading = this.#readOn();
    try {
      return await this.reading;
    } finally {
      this.reading = null;
    }
  }

  async #readOn() {
    const before = this.loaded;
    while (!this.ended && this.wanted >= this.loaded) this.#put(this.pages.length, await this.#page(this.pages.length));
    return this.loaded > before;
  }

  // Read the pages of some rows again. Later pages stay if the nodes before them are the same.
  async refresh(first, last) {
    await this.reading;
    const end = Math.min(Math.floor(last / SIZE), this.pages.length - 1);
    for (let number = Math.floor(first / SIZE); number <= end && number < this.pages.length; number += 1) {
      const page = await this.#page(number);
      if (page.at(-1)?.uuid !== this.pages[number].at(-1)?.uuid) this.pages.length = number;
      this.#put(number, page);
    }
  }

  #put(number, page) {
    this.pages[number] = page;
    this.ended = this.pages.at(-1).length < SIZE;
  }

  async #page(number) {
    const marker = number ? this.pages[number - 1].at(-1).uuid : undefined;
    return (await api.get("nodes", { ...this.query, limit: SIZE, marker }, this.signal)).nodes;
  }
}
