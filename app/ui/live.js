// Changes as they happen: the stream of events, or long polls of the list where there is no stream.

import { ApiError, api, send } from "./api.js";

const WAIT = 25; // seconds of a long poll
const SILENCE = 100_000; // milliseconds without two heartbeats, after which a stream is lost
const PAUSE = 2000; // milliseconds before the next try after a failure, and least time between polls

const after = milliseconds => new Promise(done => setTimeout(done, milliseconds));

// Yield the blocks of a text/event-stream as { id, event, data }. heard: called for each piece.
async function* blocks(answer, heard) {
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    heard();
    rest += value.replaceAll("\r", "");
    for (let end; (end = rest.indexOf("\n\n")) >= 0; rest = rest.slice(end + 2)) {
      const block = { data: "" };
      for (const line of rest.slice(0, end).split("\n")) {
        const [, name, text] = /^([a-z]*):? ?(.*)$/.exec(line) || [];
        if (name === "data") block.data += text;
        else if (name) block[name] = text;
      }
      if (block.data || block.id) yield block;
    }
  }
}

// The position of the newest event.
const newest = async (query, signal) => (await api.get("events", { ...query, limit: 1 }, signal)).last;

class Subscription {
  constructor(query, { onEvents, onReset, onState, signal }) {
    Object.assign(this, { query, onEvents, onReset, signal, streams: true, last: null, isLost: false });
    this.tell = state => onState?.(state);
  }

  // Take the position from which changes are followed: what the page reads from now on is not older.
  async begin() {
    try {
      this.last = await newest(this.query, this.signal);
    } catch (error) {
      if (!this.signal.aborted) this.failed(error);
    }
    void this.run();
  }

  async run() {
    while (!this.signal.aborted) {
      try {
        if (this.last === null) {
          this.last = await newest(this.query, this.signal);
          this.onReset?.(); // the page reads what has happened until this position
        }
        if (!this.streams) {
          if (this.isLost) await newest(this.query, this.signal);
          this.reached();
        }
        await (this.streams ? this.stream() : this.poll());
      } catch (error) {
        if (this.signal.aborted) return;
        this.failed(error);
        await after(Math.max(PAUSE, (error.retryAfter || 0) * 1000));
      }
    }
  }

  failed(error) {
    const known = error instanceof ApiError && error.status;
    if (this.streams && [404, 405, 406].includes(known)) this.streams = false;
    else if (known === 400) this.last = null; // the position is not kept any more, or not reached
    else {
      this.isLost = true;
      this.tell("lost");
    }
  }

  // The service answers; what the page failed to read meanwhile is read again.
  reached() {
    if (this.isLost) this.onReset?.();
    this.isLost = false;
    this.tell("live");
  }

  async stream() {
    const silent = new AbortController();
    let timer = null;
    const heard = () => {
      clearTimeout(timer);
      timer = setTimeout(() => silent.abort(new Error("the stream is silent")), SILENCE);
    };
    heard();
    try {
      const answer = await send("GET", "events/stream", {
        query: { ...this.query, after: this.last }, signal: AbortSignal.any([this.signal, silent.signal]),
        headers: { Accept: "text/event-stream" },
      });
      this.reached();
      for await (const block of blocks(answer, heard)) {
        if (block.event === "gap") this.onReset?.(); // events between were deleted
        else if (block.data) this.onEvents([JSON.parse(block.data)]);
        if (block.id) this.last = Number(block.id);
      }
    } finally {
      clearTimeout(timer);
    }
    await after(PAUSE);
  }

  async poll() {
    const began = performance.now();
    const page = await api.get("events", { ...this.query, after: this.last, wait: WAIT }, this.signal);
    if (page.first > this.last + 1) this.onReset?.(); // events between them were deleted
    this.last = page.last;
    if (page.events.length) this.onEvents(page.events);
    else await after(Math.max(0, PAUSE - (performance.now() - began))); // no place was left to wait
  }
}

// Subscribe to changes until `signal` aborts. `query`: filters of the list of events, as { node }.
// The page reads its data when the returned promise is fulfilled, not before. onEvents gets the new
// events in order; onReset is called when the page must read everything again; onState gets "live"
// or "lost".
export const live = {
  subscribe: (query, handlers) => new Subscription(query, handlers).begin(),
};

// A function that calls `act` soon after the first of many calls, and never twice at a time.
export function gathered(act, milliseconds, signal) {
  let due = false, busy = false;
  return async function ask() {
    due = true;
    if (busy) return;
    busy = true;
    while (due && !signal.aborted) {
      await after(milliseconds);
      due = false;
      if (!signal.aborted) await act();
    }
    busy = false;
  };
}
