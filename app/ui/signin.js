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

// Replace the content of `root` by a form. `action` gets its values; its errors are shown.
function form(root, title, fields, label, action, ...buttons) {
  const errorBox = element("p.bad", { role: "alert" });
  const formElement = element("form.signin", { onsubmit: submit },
    element("h1", {}, title), fields, errorBox,
    element("button.primary", { type: "submit" }, label), buttons);

  async function submit(event) {
    event.preventDefault();
    errorBox.textContent = "";
    try {
      await action(Object.fromEntries(new FormData(formElement)));
    } catch (error) {
      errorBox.textContent = error.message;
    }
  }
  replace(root, formElement);
  formElement.querySelector("input, select").focus();
}

// Show the form until the service accepts the caller. caller: the answer of GET /v1/login.
export function ask(root, api, caller, onSignedIn) {
  if (root.querySelector(".signin")) return;
  const strategy = caller.strategy || "http_basic";
  const fields = strategy === "keystone"
    ? [field("Token", "token", { type: "password", autocomplete: "off" })]
    : [field("User", "username", { autocomplete: "username" }),
      field("Password", "password", { type: "password", autocomplete: "current-password" })];

  async function submitValues(values) {
    try {
      const signedIn = await signIn(api, strategy, values);
      if (signedIn && !signedIn.scope) return askScope(root, api, signedIn, onSignedIn);
      await api.get("nodes", { limit: 1, fields: "uuid" });
      onSignedIn();
    } catch (error) {
      forget();
      throw error;
    }
  }
  form(root, "Sign in", fields, "Sign in", submitValues,
    caller.oidc && element("a.button", { href: "v1/login/oidc", onclick: leaveForProvider },
      "Sign in with your organisation"));
}

// Show the form that selects the scope of a session without one.
export function askScope(root, api, caller, onChosen) {
  const submitScope = async ({ scope }) => { await chooseScope(api, scope); onChosen(); };
  form(root, `Scope of ${caller.user}`, element("label", {}, "Work in", scopes(caller)), "Continue", submitScope);
}
