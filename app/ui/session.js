// The caller: a cookie of the service, or credentials that this tab sends with each request.

const KEPT = "ingot.credentials";
const RETURN = "ingot.return"; // address in the page, while the browser is at the OpenID provider
const otherTabs = new BroadcastChannel("ingot.session"); // other tabs, which have the same cookie
let credentials = JSON.parse(sessionStorage.getItem(KEPT) || "null");
let mode = "omit"; // cookies are sent only if the service has sessions

const base64 = text => btoa(String.fromCharCode(...new TextEncoder().encode(text)));

// Headers and mode of a request. Without cookies the browser opens no dialog of its own.
export const sent = () => ({ headers: { ...credentials }, credentials: mode });

function keep(headers) {
  credentials = headers;
  if (headers) sessionStorage.setItem(KEPT, JSON.stringify(headers));
  else sessionStorage.removeItem(KEPT);
}

// Ask the service who calls: { strategy, oidc, user, scope, scopes }; strategy is null if it has no
// sessions.
export async function whoami(api) {
  try {
    const caller = await api.get("login");
    if (caller.strategy !== "local") return caller;
    mode = "same-origin";
    return await api.get("login");
  } catch (error) {
    if (error.status === 401) return { strategy: error.asksForPassword ? "http_basic" : "keystone" };
    return { strategy: null };
  }
}

// Sign in; return the new session, if the service has sessions.
export async function signIn(api, strategy, fields) {
  if (strategy === "keystone") keep({ "X-Auth-Token": fields.token });
  else if (mode === "omit") keep({ Authorization: `Basic ${base64(`${fields.username}:${fields.password}`)}` });
  else {
    const session = await api.post("login", { username: fields.username, password: fields.password });
    if (session.scope) otherTabs.postMessage("changed");
    return session;
  }
}

// Move the session to another scope, which replaces its cookie.
export async function chooseScope(api, scope) {
  await api.post("login/scope", { scope });
  otherTabs.postMessage("changed");
}

// Call `action` when another tab has changed the session.
export const onChange = action => { otherTabs.onmessage = action; };

export const leaveForProvider = () => sessionStorage.setItem(RETURN, location.hash);
// Go back to the address that the browser left for the OpenID provider.
export function returnFromProvider() {
  const address = sessionStorage.getItem(RETURN);
  sessionStorage.removeItem(RETURN);
  if (address && !location.hash) history.replaceState(null, "", address);
}

export async function signOut(api) {
  keep(null);
  if (mode === "omit") return;
  await api.post("logout");
  otherTabs.postMessage("changed");
}

export const forget = () => keep(null);
export const hasCredentials = () => credentials !== null;
