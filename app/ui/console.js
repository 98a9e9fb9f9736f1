// The console of a machine. xterm.js is the only interpreter of what the machine sends: nothing of
// it becomes HTML, and what it asks the terminal is answered only while the caller types.

import { address } from "./api.js";
import { element, empty, failure, replace } from "./dom.js";
import { screenOf } from "./screen.js";

//: Milliseconds between two tries to connect.
const AGAIN = 1000;
//: Close codes after which another ticket is asked for at once: the time is over, a restart.
const EXPIRED = 4000;
//: Bytes of a message.
const LONGEST = 4096;

const bytesOf = text => Uint8Array.from(atob(text), each => each.charCodeAt(0));

// xterm.js makes style sheets and style attributes, which the policy of the page refuses. Its sheets
// become constructed ones, its attributes properties; both are the same styles.
const makeElement = document.createElement.bind(document);
const setAttribute = Element.prototype.setAttribute;
Element.prototype.setAttribute = function (name, value) {
  if (name === "style") this.style.cssText = value;
  else setAttribute.call(this, name, value);
};

function makeSheet() {
  const sheet = new CSSStyleSheet();
  const made = makeElement("span");
  document.adoptedStyleSheets.push(sheet);
  made.hidden = true;
  Object.defineProperty(made, "textContent", { set: text => sheet.replaceSync(text) });
  made.remove = () => {
    document.adoptedStyleSheets = document.adoptedStyleSheets.filter(each => each !== sheet);
    Element.prototype.remove.call(made);
  };
  return made;
}

// Show a terminal in an element of the page.
function place(shell, screen) {
  document.createElement = name => (name === "style" ? makeSheet() : makeElement(name));
  try {
    shell.open(screen);
  } finally {
    delete document.createElement;
  }
  screen.scrollIntoView({ block: "nearest" }); // xterm.js draws nothing that is out of view
}

async function terminal() {
  if (!document.getElementById("xterm"))
    document.head.append(element("link", { id: "xterm", rel: "stylesheet", href: "ui/xterm.css" }));
  const { Terminal } = await import("./xterm.js");
  return new Terminal({
    cols: 100, rows: 30, scrollback: 10_000, disableStdin: true, fontSize: 13,
    minimumContrastRatio: 4.5, linkHandler: { activate: () => {} },
  });
}

// Ask for a ticket to type, or to watch if the caller may not type.
async function ticketFor(api, at, after) {
  try {
    return { ...await api.post(`nodes/${at}/console/tickets`, { write: true, after }), mayType: true };
  } catch (error) {
    if (error.status !== 403) throw error;
    return { ...await api.post(`nodes/${at}/console/tickets`, { write: false, after }), mayType: false };
  }
}

function streamOf(at) {
  const url = address(`nodes/${at}/console/stream`);
  url.protocol = url.protocol.replace("http", "ws");
  return url;
}

// Return the elements of an enabled console by a program; it is watched until they are removed.
async function watched(api, at, signal) {
  const screen = element("div.screen", {});
  const state = element("span", { role: "status" });
  const writer = element("span.muted", {});
  const type = element("button", { type: "button", "aria-pressed": "false", disabled: true }, "Type");
  const older = element("button", { type: "button" }, "Show what is kept");
  const shell = await terminal();
  let socket = null, position = "0", holder = "", mine = false, wants = false;

  const tell = () => {
    type.textContent = wants && !mine ? "Take over" : "Type";
    type.setAttribute("aria-pressed", String(mine));
    shell.options.disableStdin = !mine;
  };
  const say = act => socket?.readyState === WebSocket.OPEN && socket.send(JSON.stringify({ act }));
  const send = data => {
    const bytes = typeof data === "string" ? new TextEncoder().encode(data) : data;
    for (let begin = 0; begin < bytes.length; begin += LONGEST)
      if (mine && socket?.readyState === WebSocket.OPEN) socket.send(bytes.slice(begin, begin + LONGEST));
  };
  shell.onData(send);
  shell.onBinary(data => send(Uint8Array.from(data, each => each.charCodeAt(0))));

  function show(found) {
    if (found.position) position = found.position;
    if (found.data) shell.write(bytesOf(found.data));
    if (found.seconds) holder = found.holder;
    if (found.state) state.textContent = [found.state, found.reason].filter(Boolean).join(": ");
    if (found.writer !== undefined) {
      mine = found.holder === holder;
      if (!found.holder) wants = false;
      writer.textContent = mine ? "You type." : found.holder ? `${found.writer || "Another caller"} types.` : "Nobody types.";
      tell();
    }
  }

  async function connect() {
    if (signal.aborted || !screen.isConnected) { shell.dispose(); return; }
    let ticket;
    try {
      ticket = await ticketFor(api, at, position);
    } catch (error) {
      state.textContent = error.message;
      if (error.status === 0 || error.status >= 500) setTimeout(connect, 5 * AGAIN);
      return;
    }
    state.textContent = [ticket.state, ticket.reason].filter(Boolean).join(": ");
    type.disabled = !ticket.mayType;
    socket = new WebSocket(streamOf(at), ticket.protocols);
    socket.addEventListener("open", () => { if (wants) say("claim"); });
    socket.addEventListener("message", event => {
      if (!screen.isConnected || signal.aborted) socket.close();
      else show(JSON.parse(event.data));
    });
    socket.addEventListener("close", event => {
      mine = false;
      tell();
      setTimeout(connect, event.code === EXPIRED ? 0 : AGAIN);
    });
  }

  type.addEventListener("click", () => {
    if (mine) { wants = false; say("release"); return; }
    say(wants ? "steal" : "claim");
    wants = true;
    tell();
    shell.focus();
  });
  older.addEventListener("click", async () => {
    older.disabled = true;
    const kept = await terminal();
    const frame = element("div.screen", {});
    try {
      const { console_history: records } = await api.get(`nodes/${at}/console/history`, { size: 262_144 });
      screen.before(element("h3", {}, "Kept output"), records.length ? frame : empty("Nothing is kept yet."));
      if (records.length) place(kept, frame);
      for (const each of records)
        if (each.kind === "output") kept.write(bytesOf(each.data));
        else kept.write(`\r\n[${each.at.slice(0, 19)}Z ${new TextDecoder().decode(bytesOf(each.data))}]\r\n`);
    } catch (error) {
      screen.before(failure(error));
    }
  });
  const begin = left => {
    if (signal.aborted || !left) shell.dispose();
    else if (!screen.isConnected) requestAnimationFrame(() => begin(left - 1));
    else { place(shell, screen); connect(); }
  };
  requestAnimationFrame(() => begin(100)); // another tab may be opened before this one is shown
  signal.addEventListener("abort", () => { socket?.close(); shell.dispose(); });
  return [element("p.row", {}, type, older, " ", state, " ", writer), screen];
}

// Return what the tab of a node's console shows.
export async function consoleOf(api, at, signal) {
  const { console_enabled: enabled, console_interface: kind } =
    await api.get(`nodes/${at}`, { fields: "console_enabled,console_interface" });
  if (!enabled) {
    const panel = element("div", {});
    replace(panel, empty(`The console is not enabled (console interface ${kind}).`),
      element("button", {
        type: "button",
        onclick: async () => {
          try {
            await api.put(`nodes/${at}/states/console`, { enabled: true });
            replace(panel, empty("The console is being enabled; open this tab again."));
          } catch (error) {
            replace(panel, failure(error));
          }
        },
      }, "Enable it"));
    return panel;
  }
  let facts;
  try {
    facts = await api.get(`nodes/${at}/console`);
  } catch (error) {
    if (error.status !== 400) throw error; // a console of another kind
    const { console_info: info } = await api.get(`nodes/${at}/states/console`);
    if (/^https?:/.test(info?.url || ""))
      return element("p", {}, element("a", { href: info.url, target: "_blank", rel: "noreferrer noopener" }, info.url));
    return empty("The console is started.");
  }
  if (facts.kind !== "graphical") return watched(api, at, signal);
  return screenOf(async () => ({ ...await ticketFor(api, at, "0"), url: streamOf(at) }), signal);
}
