// The shell: navigation, search, keyboard, light and dark, signing in.

import { api } from "./api.js";
import { page as conductors } from "./conductors.js";
import { dialog, notice } from "./dialogs.js";
import { element, failure, replace } from "./dom.js";
import { facts } from "./facts.js";
import { page as fleet } from "./fleet.js";
import { live } from "./live.js";
import { page as node } from "./node.js";
import { page as operations } from "./operations.js";
import { page as resources } from "./resources.js";
import { ask, askScope, scopes } from "./signin.js";
import { chooseScope, forget, hasCredentials, onChange, returnFromProvider, signOut, whoami } from "./session.js";

// A page is { title, path, key, show(root, context) }. `path` may have parameters, as in
// "/nodes/:id". `show` may be asynchronous, and return a function that cleans up. `context` is
// { api, live, params, navigate, keep, signal }: `params` has the parameters of path and query,
// `keep` writes the query to the address, and `signal` aborts when the user leaves the page.
const PAGES = [fleet, node, operations, conductors, resources].filter(Boolean);
const HOME = "/fleet";
const main = document.getElementById("main");
const search = document.getElementById("search");

let leave = null; // ends the page that is shown

// An address that a person has typed may be malformed.
function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

function matched(address) {
  const [path, query] = address.split("?");
  const parts = path.split("/");
  for (const page of PAGES) {
    const names = page.path.split("/");
    if (names.length !== parts.length) continue;
    const found = Object.fromEntries(new URLSearchParams(query));
    const fits = names.every((name, at) => {
      if (!name.startsWith(":")) return name === parts[at];
      found[name.slice(1)] = decoded(parts[at]);
      return parts[at] !== "";
    });
    if (fits) return { page, params: found };
  }
  return null;
}

function addressed(path, query) {
  const given = Object.entries(query || {}).filter(([, value]) => value !== "" && value !== undefined && value !== null);
  return given.length ? `${path}?${new URLSearchParams(given)}` : path;
}

const navigate = (path, query) => { location.hash = `#${addressed(path, query)}`; };
const keep = (path, query) => history.replaceState(null, "", `#${addressed(path, query)}`);

async function show() {
  const found = matched(location.hash.slice(1));
  if (!found) return navigate(HOME);
  leave?.();
  const gone = new AbortController();
  const cleanups = [];
  leave = () => { gone.abort(); cleanups.forEach(each => each()); };
  for (const link of document.querySelectorAll("#pages a"))
    link.setAttribute("aria-current", link.dataset.path === found.page.path ? "page" : "false");
  document.title = `${found.page.title} · Ingot`;
  const root = element("div.page", {});
  replace(main, root);
  main.focus({ preventScroll: true });
  scrollTo(0, 0);
  try {
    const cleanup = await found.page.show(root, {
      api, live, navigate, keep, params: found.params, signal: gone.signal,
    });
    if (cleanup) gone.signal.aborted ? cleanup() : cleanups.push(cleanup);
  } catch (error) {
    if (!gone.signal.aborted) replace(root, failure(error));
  }
}

// Keyboard

const KEYS = [
  ["/", "search for a node, or filter the fleet"],
  ...PAGES.filter(page => page.key).map(page => [`g ${page.key}`, page.title]),
  ["j k", "next, previous row"], ["Enter", "open the row"], ["x", "select the row"],
  ["?", "this help"],
];

const help = () => dialog("Keyboard",
  element("dl.facts", {}, KEYS.map(([key, words]) => [element("dt", {}, element("kbd", {}, key)), element("dd", {}, words)])), []);

let going = false; // `g` was pressed
document.addEventListener("keydown", event => {
  if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
  if (event.target.closest("input, textarea, select")) {
    if (event.key === "Escape") event.target.blur();
    return;
  }
  const page = going && PAGES.find(each => each.key === event.key && !each.path.includes(":"));
  going = event.key === "g";
  if (page) navigate(page.path);
  else if (event.key === "/") search.elements.words.focus();
  else if (event.key === "?") help();
  else return;
  event.preventDefault();
});

search.addEventListener("submit", async event => {
  event.preventDefault();
  const words = search.elements.words.value.trim();
  if (!words) return;
  const filters = words.split(/\s+/).map(each => /^(\w+)=(.*)$/.exec(each)?.slice(1));
  const known = (await facts()).filters;
  if (filters.every(each => each && each[0] in known && !/[*,()"']/.test(each[1])))
    return navigate(HOME, Object.fromEntries(filters));
  if (/^[\w.-]+$/.test(words)) {
    try {
      const found = await api.get(`nodes/${encodeURIComponent(words)}`, { fields: "uuid" });
      navigate(`/nodes/${found.uuid}`);
      search.reset();
      return;
    } catch (error) {
      if (error.status !== 404 && error.status !== 400) return notice(error.message, "bad");
    }
  }
  navigate(HOME, { where: words }); // an expression, or words that any field may have
});

// Tools

const THEME = "ingot.theme";
function theme(chosen) {
  if (chosen) document.documentElement.dataset.theme = chosen;
  else delete document.documentElement.dataset.theme;
}
function switchTheme() {
  const dark = getComputedStyle(document.documentElement).getPropertyValue("--scheme").trim() === "dark";
  const chosen = dark ? "light" : "dark";
  localStorage.setItem(THEME, chosen);
  theme(chosen);
}

// The address names a page, so the link cannot name the content by its fragment.
document.querySelector(".skip").addEventListener("click", event => {
  event.preventDefault();
  main.focus();
});

async function start() {
  theme(localStorage.getItem(THEME));
  replace(document.getElementById("pages"), PAGES.filter(page => !page.path.includes(":"))
    .map(page => element("a", { href: `#${page.path}`, "data-path": page.path }, page.title)));
  const caller = await whoami(api);
  const leaves = caller.user || hasCredentials();
  const again = () => location.reload();
  returnFromProvider();
  onChange(again);
  replace(document.getElementById("tools"),
    element("button.quiet", { type: "button", "aria-label": "Light or dark", title: "Light or dark", onclick: switchTheme }, "◐"),
    element("button.quiet", { type: "button", "aria-label": "Keyboard", title: "Keyboard", onclick: help }, "?"),
    element("a", { href: "docs" }, "API"),
    leaves && element("span.caller", {},
      caller.scope && caller.scopes.length > 1 && scopes(caller, { "aria-label": "Scope", onchange: switchScope }),
      element("button.quiet", { type: "button", onclick: async () => { await signOut(api); again(); } },
        caller.user ? `Sign out ${caller.user}` : "Sign out")));

  async function switchScope({ target }) {
    try {
      await chooseScope(api, target.value);
      again();
    } catch (error) {
      target.value = caller.scope;
      notice(error.message, "bad");
    }
  }
  function enter() {
    leave?.();
    forget();
    document.querySelector("#tools .caller")?.remove();
    ask(main, api, caller, again);
  }
  document.addEventListener("signin", enter);
  if (caller.user && !caller.scope) return askScope(main, api, caller, again);
  const missing = !leaves && ["local", "http_basic", "keystone"].includes(caller.strategy);
  if (missing) return enter();
  addEventListener("hashchange", show);
  show();
}

start();
