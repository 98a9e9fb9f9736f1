// The screen of a machine. noVNC is the only interpreter of what its VNC server sends, which becomes
// pixels of a canvas; keys and pointer are sent while the caller types.

import { element } from "./dom.js";

//: Milliseconds between two tries to connect: first, and at most.
const AGAIN = 1000;
const LATEST = 15_000;
//: Close codes: the time is over; the connection to the VNC server has ended.
const EXPIRED = 4000;
const ENDED = 4001;

// What noVNC sees of a WebSocket: its binary messages. Texts are told to `tell`.
function channelOf(socket, tell) {
  socket.binaryType = "arraybuffer";
  const channel = {
    binaryType: "arraybuffer", protocol: "", onopen: null, onmessage: null, onerror: null, onclose: null,
    get readyState() { return socket.readyState; },
    send: data => socket.send(data),
    close: () => socket.close(),
  };
  socket.addEventListener("open", event => channel.onopen?.(event));
  socket.addEventListener("error", event => channel.onerror?.(event));
  socket.addEventListener("close", event => channel.onclose?.(event));
  socket.addEventListener("message", event => {
    if (typeof event.data === "string") tell(JSON.parse(event.data));
    else channel.onmessage?.(event);
  });
  return channel;
}

// Return the elements of a screen, which is watched until they are removed.
//
// open: returns a promise of { url, protocols, state, reason } for each connection; it
// throws an error with `lasts` if there will be no other one.
export function screenOf(open, signal) {
  const frame = element("div.picture", {});
  const state = element("span", { role: "status" });
  const writer = element("span.muted", {});
  const type = element("button", { type: "button", "aria-pressed": "false", disabled: true }, "Type");
  const keys = element("button", { type: "button", disabled: true }, "Ctrl-Alt-Del");
  let socket = null, viewer = null, holder = "", mine = false, wants = false, pause = AGAIN, ended = false;

  const tell = () => {
    type.textContent = wants && !mine ? "Take over" : "Type";
    type.setAttribute("aria-pressed", String(mine));
    keys.disabled = !mine;
    if (viewer) viewer.viewOnly = !mine;
  };
  const say = act => socket?.readyState === WebSocket.OPEN && socket.send(JSON.stringify({ act }));

  function show(told) {
    if (told.seconds) {
      holder = told.holder;
      type.disabled = !told.write;
    }
    if (told.state) state.textContent = [told.state, told.reason].filter(Boolean).join(": ");
    if (told.writer === undefined) return;
    mine = told.holder === holder;
    if (!told.holder) wants = false;
    writer.textContent = mine ? "You type." : told.holder ? `${told.writer || "Another caller"} types.` : "Nobody types.";
    tell();
    if (mine) viewer?.focus({ preventScroll: true });
  }

  async function connect() {
    if (ended || signal?.aborted || !frame.isConnected) return;
    let ticket, RFB;
    try {
      [ticket, { default: RFB }] = await Promise.all([open(), import("./novnc.js")]);
    } catch (error) {
      state.textContent = error.message;
      if (!error.lasts) setTimeout(connect, LATEST);
      return;
    }
    state.textContent = [ticket.state, ticket.reason].filter(Boolean).join(": ");
    socket = new WebSocket(ticket.url, ticket.protocols);
    socket.addEventListener("close", event => {
      mine = false;
      viewer = null;
      tell();
      if (event.code === ENDED) state.textContent = `not connected: ${event.reason}`;
      setTimeout(connect, event.code === EXPIRED ? 0 : pause);
      pause = Math.min(2 * pause, LATEST);
    });
    viewer = new RFB(frame, channelOf(socket, show), { shared: true });
    viewer.scaleViewport = true;
    viewer.viewOnly = true;
    viewer.addEventListener("connect", () => {
      pause = AGAIN;
      state.textContent = "connected";
      if (wants) say("claim");
    });
  }

  type.addEventListener("click", () => {
    if (mine) { wants = false; say("release"); return; }
    say(wants ? "steal" : "claim");
    wants = true;
    tell();
  });
  keys.addEventListener("click", () => viewer?.sendCtrlAltDel());
  const begin = left => {
    if (frame.isConnected) connect();
    else if (left && !signal?.aborted) requestAnimationFrame(() => begin(left - 1));
  };
  requestAnimationFrame(() => begin(100)); // another tab may be opened before this one is shown
  signal?.addEventListener("abort", () => { ended = true; socket?.close(); });
  return [element("p.row", {}, type, keys, " ", state, " ", writer), frame];
}
