// The selected nodes of the fleet: those that were picked, or all that the filters match but some.

const MOST_OF_LIST = 1000; // nodes of a request
//: Most picked nodes of an expression: it has at most 4,096 characters, and a UUID has 36.
export const MOST_IN_EXPRESSION = 100;
const HIDDEN_FILTERS = ["conductor"]; // of lists only: rollouts do not take it

export class Selection {
  // filters: returns the filters of the fleet. onChange: called after each change.
  constructor(filters, onChange) {
    Object.assign(this, { filters, onChange, nodes: new Map(), isAll: false, excluded: new Map(), total: null, last: null });
  }

  has(uuid) {
    return this.isAll ? !this.excluded.has(uuid) : this.nodes.has(uuid);
  }

  // Number of selected nodes; null: unknown.
  get size() {
    if (!this.isAll) return this.nodes.size;
    return this.total === null ? null : this.total - this.excluded.size;
  }

  get isEmpty() {
    return this.size === 0;
  }

  // Select a node, a { uuid, name }, or no longer. row: its place, from which a later range begins.
  toggle(node, row) {
    this.set([node], !this.has(node.uuid), { row, uuid: node.uuid });
  }

  // Select nodes, or no longer. last: { row, uuid } of the last one.
  set(nodes, isSelected, last) {
    const marked = this.isAll ? this.excluded : this.nodes;
    for (const { uuid, name } of nodes)
      if (isSelected === this.isAll) marked.delete(uuid);
      else marked.set(uuid, { uuid, name });
    this.last = last;
    this.onChange();
  }

  // Select all nodes that the filters match, also those that are not read yet.
  all() {
    this.clear();
    this.isAll = true;
    this.onChange();
  }

  clear() {
    this.nodes.clear();
    this.excluded.clear();
    this.isAll = false;
    this.last = null;
    this.onChange();
  }

  // Return the selected nodes, { uuid, name } each. onProgress(count) is called after each request.
  async read(api, onProgress = () => {}) {
    if (!this.isAll) return [...this.nodes.values()];
    const nodes = [];
    for (let marker; ;) {
      const answer = await api.get("nodes", { ...this.filters(), fields: "uuid,name", limit: MOST_OF_LIST, marker });
      nodes.push(...answer.nodes);
      onProgress(nodes.length);
      if (!answer.next) return nodes.filter(({ uuid }) => !this.excluded.has(uuid));
      marker = new URL(answer.next).searchParams.get("marker");
    }
  }

  // Return the selected nodes as the filters of a request, or null if there are too many picked ones.
  asFilters() {
    const listed = this.isAll ? this.excluded : this.nodes;
    const { where, ...filters } = this.isAll ? this.filters() : {};
    if (listed.size > MOST_IN_EXPRESSION || HIDDEN_FILTERS.some(name => name in filters)) return null;
    const uuids = [...listed.keys()].join(",");
    if (!this.isAll) return { where: `uuid in (${uuids})` };
    const expression = [where && `(${where})`, uuids && `not uuid in (${uuids})`].filter(Boolean).join(" and ");
    return { ...filters, ...(expression && { where: expression }) };
  }
}
