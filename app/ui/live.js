// Changes as they happen: the stream of events, or long polls of the list where there is no stream.

import { ApiError, api, send } from "./api.js";

const WAIT = 25; // seconds of a long poll
const SILENCE = 100_000; // milliseconds without two heartbeats, after which a stream is lost
const PAUSE = 2000; // milliseconds before the next try after a failure, and least time between polls

const pause = milliseconds => new Promise(resolve => setTimeout(resolve, milliseconds));

// Yield the blocks of a text/event-stream as { id, event, data }. onData is called
// for each chunk.
async function* blocks(answer, onData) {
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let buffer = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    onData();
    buffer += value.replaceAll("\r", "");
    for (let end; (end = buffer.indexOf("\n\n")) >= 0; buffer = buffer.slice(end + 2)) {
      const block = { data: "" };
      for (const line of buffer.slice(0, end).split("\n")) {
        const [, name, text] = /^([a-z]*):? ?(.*)$/.exec(line) || [];
        if (name === "data") block.data += text;
        else if (name) block[name] = text;
      }
      if (block.data || block.id) yield block;
    }
  }
}

// The position of the newest event.
const newestPosition = async (query, signal) => (await api.get("events", { ...query, limit: 1 }, signal)).last;

class Subscription {
  constructor(query, { onEvents, onReset, onState, signal }) {
    Object.assign(this, { query, onEvents, onReset, signal, streams: true, last: null, isLost: false });
    this.tell = state => onState?.(state);
  }

  // Take the position from which changes are followed: later reads of the page are not older.
  async begin() {
    try {
      this.last = await newestPosition(this.query, this.signal);
    } catch (error) {
      if (!this.signal.aborted) this.failed(error);
    }
    void this.run();
  }

  async run() {
    while (!this.signal.aborted) {
      try {
        if (this.last === null) {
          this.last = await newestPosition(this.query, this.signal);
          this.onReset?.(); // the page reads the changes up to this position
        }
        if (!this.streams) {
          if (this.isLost) await newestPosition(this.query, this.signal);
          this.reached();
        }
        await (this.streams ? this.stream() : this.poll());
      } catch (error) {
        if (this.signal.aborted) return;
        this.failed(error);
        await pause(Math.max(PAUSE, (error.retryAfter || 0) * 1000));
      }
    }
  }

  failed(error) {
    const status = error instanceof ApiError && error.status;
    if (this.streams && [404, 405, 406].includes(status)) this.streams = false;
    else if (status === 400) this.last = null; // the position is not kept any more, or not reached
    else {
      this.isLost = true;
      this.tell("lost");
    }
  }

  // The service answers; the page repeats the reads that failed meanwhile.
  reached() {
    if (this.isLost) this.onReset?.();
    this.isLost = false;
    this.tell("live");
  }

  async stream() {
    const silence = new AbortController();
    let timer = null;
    const onData = () => {
      clearTimeout(timer);
      timer = setTimeout(() => silence.abort(new Error("the stream is silent")), SILENCE);
    };
    onData();
    try {
      const answer = await send("GET", "events/stream", {
        query: { ...this.query, after: this.last }, signal: AbortSignal.any([this.signal, silence.signal]),
        headers: { Accept: "text/event-stream" },
      });
      this.reached();
      for await (const block of blocks(answer, onData)) {
        if (block.event === "gap") this.onReset?.(); // events between were deleted
        else if (block.data) this.onEvents([JSON.parse(block.data)]);
        if (block.id) this.last = Number(block.id);
      }
    } finally {
      clearTimeout(timer);
    }
    await pause(PAUSE);
  }

  async poll() {
    const start = performance.now();
    const page = await api.get("events", { ...this.query, after: this.last, wait: WAIT }, this.signal);
    if (page.first > this.last + 1) this.onReset?.(); // events between them were deleted
    this.last = page.last;
    if (page.events.length) this.onEvents(page.events);
    else await pause(Math.max(0, PAUSE - (performance.now() - start))); // the server had no free slot for a long poll
  }
}

// Subscribe to changes until `signal` aborts. `query`: filters of the list of events, as { node }.
// The page reads its data when the returned promise is fulfilled, not before. onEvents gets the new
// events in order; onReset is called when the page must read everything again; onState gets "live"
// or "lost".
export const live = {
  subscribe: (query, handlers) => new Subscription(query, handlers).begin(),
};

// Return a function that calls `action` soon after the first of many calls, and never twice at a
// time.
export function gathered(action, milliseconds, signal) {
  let isDue = false, busy = false;
  return async function request() {
    isDue = true;
    if (busy) return;
    busy = true;
    while (isDue && !signal.aborted) {
      await pause(milliseconds);
      isDue = false;
      if (!signal.aborted) await action();
    }
    busy = false;
  };
}
