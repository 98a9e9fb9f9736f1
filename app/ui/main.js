// The shell: navigation, search, keyboard, light and dark, signing in.

import { api } from "./api.js";
import { page as changes } from "./changes.js";
import { page as conductors } from "./conductors.js";
import { dialog, notice } from "./dialogs.js";
import { element, factList, failure, replace } from "./dom.js";
import { facts } from "./facts.js";
import { page as fleet } from "./fleet.js";
import { live } from "./live.js";
import { page as node } from "./node.js";
import { page as operations } from "./operations.js";
import { permissions } from "./permissions.js";
import { page as resources } from "./resources.js";
import { page as rollout } from "./rollout.js";
import { page as rollouts } from "./rollouts.js";
import { ask, askScope, scopes } from "./signin.js";
import { chooseScope, forget, hasCredentials, onChange, returnFromProvider, signOut, whoami } from "./session.js";

// A page is { title, path, key, rule, show(root, context) }. `path` may have parameters, as in
// "/nodes/:id"; a page whose `rule` the caller does not pass is not offered. `show` may be asynchronous. `context` is
// { api, live, params, navigate, keep, signal }: `params` has the parameters of path and query,
// `keep` writes the query to the address, and `signal` aborts when the user leaves the page.
const PAGES = [fleet, node, operations, rollouts, rollout, changes, resources, conductors];
const HOME = "/fleet";
const main = document.getElementById("main");
const search = document.getElementById("search");

let leavePage = null; // ends the page that is shown

// An address that the user typed may be malformed.
function decode(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

function matchPage(address) {
  const [path, query] = address.split("?");
  const parts = path.split("/");
  for (const page of PAGES) {
    const names = page.path.split("/");
    if (names.length !== parts.length) continue;
    const parameters = Object.fromEntries(new URLSearchParams(query));
    const fits = names.every((name, index) => {
      if (!name.startsWith(":")) return name === parts[index];
      parameters[name.slice(1)] = decode(parts[index]);
      return parts[index] !== "";
    });
    if (fits) return { page, params: parameters };
  }
  return null;
}

function addressOf(path, query) {
  const entries = Object.entries(query || {}).filter(([, value]) => value !== "" && value !== undefined && value !== null);
  return entries.length ? `${path}?${new URLSearchParams(entries)}` : path;
}

const navigate = (path, query) => { location.hash = `#${addressOf(path, query)}`; };
const keep = (path, query) => history.replaceState(null, "", `#${addressOf(path, query)}`);

async function show() {
  const match = matchPage(location.hash.slice(1));
  if (!match) return navigate(HOME);
  leavePage?.();
  const controller = new AbortController();
  leavePage = () => controller.abort();
  for (const link of document.querySelectorAll("#pages a"))
    link.setAttribute("aria-current", link.dataset.path === match.page.path ? "page" : "false");
  document.title = `${match.page.title} · Ingot`;
  const root = element("div.page", {});
  replace(main, root);
  main.focus({ preventScroll: true });
  scrollTo(0, 0);
  try {
    await match.page.show(root, { api, live, navigate, keep, params: match.params, signal: controller.signal });
  } catch (error) {
    if (!controller.signal.aborted) replace(root, failure(error));
  }
}

// Keyboard

const KEYS = [
  ["/", "search for a node, or filter the fleet"],
  ...PAGES.filter(page => page.key).map(page => [`g ${page.key}`, page.title]),
  ["j k", "next, previous row"], ["Enter", "open the row"], ["x", "select the row"], ["Shift x", "select from the last one to this row"],
  ["?", "this help"],
];

const help = () => dialog("Keyboard",
  factList(KEYS.map(([key, description]) => [element("kbd", {}, key), description])), []);

let isPrefixed = false; // `g` was pressed
document.addEventListener("keydown", event => {
  if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
  if (event.target.closest("input, textarea, select")) {
    if (event.key === "Escape") event.target.blur();
    return;
  }
  const page = isPrefixed && PAGES.find(candidate => candidate.key === event.key && !candidate.path.includes(":"));
  isPrefixed = event.key === "g";
  if (page) navigate(page.path);
  else if (event.key === "/") search.elements.words.focus();
  else if (event.key === "?") help();
  else return;
  event.preventDefault();
});

search.addEventListener("submit", async event => {
  event.preventDefault();
  const text = search.elements.words.value.trim();
  if (!text) return;
  const filters = text.split(/\s+/).map(word => /^(\w+)=([^*,()"']+)$/.exec(word)?.slice(1));
  const parameters = (await facts()).filters;
  const isPlain = filters.every(filter => filter && filter[0] in parameters);
  if (isPlain && new Set(filters.map(([name]) => name)).size === filters.length)
    return navigate(HOME, Object.fromEntries(filters));
  if (/^[\w.-]+$/.test(text)) {
    try {
      const node = await api.get(`nodes/${encodeURIComponent(text)}`, { fields: "uuid" });
      navigate(`/nodes/${node.uuid}`);
      search.reset();
      return;
    } catch (error) {
      if (error.status !== 404 && error.status !== 400) return notice(error.message, "bad");
    }
  }
  navigate(HOME, { where: text }); // an expression, or words that any field may have
});

// Tools

const THEME = "ingot.theme";
function theme(scheme) {
  if (scheme) document.documentElement.dataset.theme = scheme;
  else delete document.documentElement.dataset.theme;
}
function switchTheme() {
  const dark = getComputedStyle(document.documentElement).getPropertyValue("--scheme").trim() === "dark";
  const scheme = dark ? "light" : "dark";
  localStorage.setItem(THEME, scheme);
  theme(scheme);
}

// The address names a page, so the link cannot name the content by its fragment.
document.querySelector(".skip").addEventListener("click", event => {
  event.preventDefault();
  main.focus();
});

async function start() {
  theme(localStorage.getItem(THEME));
  void facts(); // in parallel
  const caller = await whoami(api);
  const canSignOut = caller.user || hasCredentials();
  const reload = () => location.reload();
  returnFromProvider();
  onChange(reload);
  replace(document.getElementById("tools"),
    element("button.quiet", { type: "button", "aria-label": "Light or dark", title: "Light or dark", onclick: switchTheme }, "◐"),
    element("button.quiet", { type: "button", "aria-label": "Keyboard", title: "Keyboard", onclick: help }, "?"),
    element("a", { href: "docs" }, "API"),
    canSignOut && element("span.caller", {},
      caller.scope && caller.scopes.length > 1 && scopes(caller, { "aria-label": "Scope", onchange: switchScope }),
      element("button.quiet", { type: "button", onclick: async () => { await signOut(api); reload(); } },
        caller.user ? `Sign out ${caller.user}` : "Sign out")));

  async function switchScope({ target }) {
    try {
      await chooseScope(api, target.value);
      reload();
    } catch (error) {
      target.value = caller.scope;
      notice(error.message, "bad");
    }
  }
  function enter() {
    leavePage?.();
    forget();
    document.querySelector("#tools .caller")?.remove();
    showPages([]);
    ask(main, api, caller, reload);
  }
  document.addEventListener("signin", enter);
  if (caller.user && !caller.scope) return askScope(main, api, caller, reload);
  const mustSignIn = !canSignOut && ["local", "http_basic", "keystone"].includes(caller.strategy);
  if (mustSignIn) return enter();
  addEventListener("hashchange", show);
  const navigable = PAGES.filter(({ path }) => !path.includes(":"));
  permissions(api).then(may => showPages(navigable.filter(({ rule }) => !rule || may(rule))),
    error => error.status === 401 || showPages(navigable));
  show();
}

// Show the navigation: nothing before the caller has signed in.
function showPages(pages) {
  search.hidden = !pages.length;
  const current = matchPage(location.hash.slice(1))?.page.path || HOME;
  replace(document.getElementById("pages"), pages.map(({ path, title }) =>
    element("a", { href: `#${path}`, "data-path": path, "aria-current": path === current ? "page" : "false" }, title)));
}

start();
