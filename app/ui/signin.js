// The forms for signing in, and for the scope of a user who has several.

import { element, replace } from "./dom.js";
import { chooseScope, forget, leaveForProvider, signIn } from "./session.js";

const field = (label, name, attributes) =>
  element("label", {}, label, element("input", { name, required: true, ...attributes }));

// A select of the scopes of a caller.
export const scopes = (caller, attributes) =>
  element("select", { name: "scope", ...attributes }, caller.scopes.map(scope =>
    element("option", { value: scope, selected: scope === caller.scope },
      scope === "system" ? "system (all projects)" : scope)));

// Replace the content of `root` by a form. `act` gets its values; its errors are shown.
function form(root, title, fields, label, act, ...more) {
  const told = element("p.bad", { role: "alert" });
  const made = element("form.signin", { onsubmit: submit },
    element("h1", {}, title), fields, told,
    element("button.primary", { type: "submit" }, label), more);

  async function submit(event) {
    event.preventDefault();
    told.textContent = "";
    try {
      await act(Object.fromEntries(new FormData(made)));
    } catch (error) {
      told.textContent = error.message;
    }
  }
  replace(root, made);
  made.querySelector("input, select").focus();
}

// Show the form until the service accepts the caller. caller: the answer of GET /v1/login.
export function ask(root, api, caller, done) {
  if (root.querySelector(".signin")) return;
  const strategy = caller.strategy || "http_basic";
  const fields = strategy === "keystone"
    ? [field("Token", "token", { type: "password", autocomplete: "off" })]
    : [field("User", "username", { autocomplete: "username" }),
      field("Password", "password", { type: "password", autocomplete: "current-password" })];

  async function act(values) {
    try {
      const signedIn = await signIn(api, strategy, values);
      if (signedIn && !signedIn.scope) return askScope(root, api, signedIn, done);
      await api.get("nodes", { limit: 1, fields: "uuid" });
      done();
    } catch (error) {
      forget();
      throw error;
    }
  }
  form(root, "Sign in", fields, "Sign in", act,
    caller.oidc && element("a.button", { href: "v1/login/oidc", onclick: leaveForProvider },
      "Sign in with your organisation"));
}

// Show the form for the scope of a session that has none yet.
export function askScope(root, api, caller, done) {
  const act = async ({ scope }) => { await chooseScope(api, scope); done(); };
  form(root, `Scope of ${caller.user}`, element("label", {}, "Work in", scopes(caller)), "Continue", act);
}
