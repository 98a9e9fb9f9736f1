// Requests to the API of this service: version, caller, and errors in words.

import { sent } from "./session.js";

const ROOT = new URL("../", import.meta.url);
// Milliseconds for the whole answer of a read: longer than a long poll of 25 seconds.
const PATIENCE = 40_000;
const VERSION = "X-OpenStack-Ironic-API-Version";

export class ApiError extends Error {
  constructor(message, status, headers) {
    super(message);
    this.status = status; // 0: no answer
    this.retryAfter = Number(headers?.get("Retry-After")) || 0; // seconds
    this.asksForPassword = /^basic/i.test(headers?.get("WWW-Authenticate") || "");
  }
}

// Return the text of an error. Ironic's errors are a document, or a document in a string.
function wordsOf(text, status) {
  try {
    let fault = JSON.parse(text);
    fault = fault.error_message ?? fault;
    if (typeof fault === "string") fault = JSON.parse(fault);
    return fault.faultstring || fault.description || fault.title || `status ${status}`;
  } catch {
    return text.slice(0, 300) || `status ${status}`;
  }
}

// URL of a path below /v1, with the parameters that have values.
export function address(path, query) {
  const url = new URL(`v1/${path}`, ROOT);
  for (const [name, value] of Object.entries(query || {}))
    if (value !== undefined && value !== null && value !== "") url.searchParams.append(name, value);
  return url;
}

// The error of a request without an answer; an aborted request keeps its error.
const unanswered = error => (error.name === "AbortError" ? error : new ApiError("The service does not answer.", 0));

// Send a request; return the answer. Throws ApiError for each status from 400 up.
export async function send(method, path, { body, query, signal, headers } = {}) {
  const caller = sent();
  const request = {
    method, signal, credentials: caller.credentials, cache: "no-store",
    headers: { [VERSION]: "latest", Accept: "application/json", ...caller.headers, ...headers },
  };
  if (body !== undefined) {
    request.body = JSON.stringify(body);
    request.headers["Content-Type"] = "application/json";
  }
  let answer;
  try {
    answer = await fetch(address(path, query), request);
  } catch (error) {
    throw unanswered(error);
  }
  if (answer.ok) return answer;
  const failure = new ApiError(wordsOf(await answer.text(), answer.status), answer.status, answer.headers);
  if (failure.status === 401 && path !== "login") document.dispatchEvent(new CustomEvent("signin"));
  throw failure;
}

// Send a request; return the document of the answer, or null.
async function document_(method, path, options) {
  const answer = await send(method, path, options);
  const text = await answer.text().catch(error => { throw unanswered(error); });
  return text ? JSON.parse(text) : null;
}

export const api = {
  get: (path, query, signal) => document_("GET", path, {
    query, signal: AbortSignal.any([AbortSignal.timeout(PATIENCE), ...(signal ? [signal] : [])]),
  }),
  put: (path, body, query) => document_("PUT", path, { body, query }),
  post: (path, body, query) => document_("POST", path, { body, query }),
  patch: (path, body, query) => document_("PATCH", path, { body, query }),
  delete: (path, query) => document_("DELETE", path, { query }),
};

// Save the file at a path below /v1; a plain link would send no credentials.
export async function download(path, name) {
  const answer = await send("GET", path, { headers: { Accept: "*/*" } });
  const url = URL.createObjectURL(await answer.blob());
  const link = document.createElement("a");
  Object.assign(link, { href: url, download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
}

const files = new Map();
// A document of this page that has no data of the fleet: "facts.json"; also "../openapi.json".
export function file(name) {
  if (!files.has(name)) {
    const url = new URL(name, import.meta.url);
    files.set(name, fetch(url, { credentials: "omit" }).then(answer => answer.json()));
  }
  return files.get(name);
}
