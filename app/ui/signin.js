// The form for signing in.

import { element, replace } from "./dom.js";
import { forget, signIn } from "./session.js";

const field = (label, name, attributes) =>
  element("label", {}, label, element("input", { name, required: true, ...attributes }));

// Show the form until the service accepts the caller. caller: the answer of GET /v1/login.
export function ask(root, api, caller, done) {
  if (root.querySelector(".signin")) return;
  const strategy = caller.strategy || "http_basic";
  const told = element("p.bad", { role: "alert" });
  const fields = strategy === "keystone"
    ? [field("Token", "token", { type: "password", autocomplete: "off" })]
    : [field("User", "username", { autocomplete: "username" }),
      field("Password", "password", { type: "password", autocomplete: "current-password" })];
  const form = element("form.signin", { onsubmit: submit },
    element("h1", {}, "Sign in"), fields, told,
    element("button.primary", { type: "submit" }, "Sign in"),
    caller.oidc && element("a.button", { href: "v1/login/oidc" }, "Sign in with your organisation"));

  async function submit(event) {
    event.preventDefault();
    told.textContent = "";
    try {
      await signIn(api, strategy, Object.fromEntries(new FormData(form)));
      await api.get("nodes", { limit: 1, fields: "uuid" });
      done();
    } catch (error) {
      forget();
      told.textContent = error.message;
    }
  }
  replace(root, form);
  form.querySelector("input").focus();
}
