// The caller: a cookie of the service, or credentials that this tab sends with each request.

const KEPT = "ingot.credentials";
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

// Ask the service who calls: { strategy, oidc, user }; strategy is null if it has no sessions.
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

export async function signIn(api, strategy, fields) {
  if (strategy === "keystone") keep({ "X-Auth-Token": fields.token });
  else if (mode === "omit") keep({ Authorization: `Basic ${base64(`${fields.username}:${fields.password}`)}` });
  else await api.post("login", { username: fields.username, password: fields.password });
}

export async function signOut(api) {
  keep(null);
  if (mode !== "omit") await api.post("logout");
}

export const forget = () => keep(null);
export const hasCredentials = () => credentials !== null;
