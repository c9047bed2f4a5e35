// The client of /api/v1. It never invents an answer: what fails is an ApiError with the service's words.
import { EventParser } from "./sse.js";

const ROOT = new URL("../", document.baseURI);
const API = new URL("api/v1/", ROOT);
const SLOWEST = 15;
const SILENCE = 50; // seconds; a comment comes every 15

/** A request was refused, or did not arrive. `problem` is what the service says. */
export class ApiError extends Error {
  constructor(problem) {
    super(problem.detail || problem.title || "The request failed.");
    this.problem = problem;
    this.status = problem.status ?? 0;
  }
}

let csrfToken = "";

/** Set the token that is sent with requests that change something. */
export function setCsrfToken(token) {
  csrfToken = token;
}

/** A name that is not used twice. */
export function newKey() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** The address of a path in the API; each part is encoded. */
export function pathOf(...parts) {
  return parts.map((part) => encodeURIComponent(part)).join("/");
}

function addressOf(path, query = {}) {
  const url = new URL(path, API);
  for (const [name, value] of Object.entries(query)) {
    if (value !== undefined && value !== null && value !== "") url.searchParams.set(name, value);
  }
  return url;
}

/** The error of a request whose answer did not arrive whole. */
function unreachable(error) {
  if (error.name === "AbortError") return error;
  return new ApiError({ status: 0, title: "Not reachable", detail: "The service cannot be reached.", retryable: true });
}

async function send(url, options) {
  let response;
  try {
    response = await fetch(url, { credentials: "same-origin", cache: "no-store", ...options });
  } catch (error) {
    throw unreachable(error);
  }
  if (!response.ok) throw new ApiError(await readProblem(response));
  return response;
}

async function readProblem(response) {
  const problem = { status: response.status, title: response.statusText, detail: "" };
  try {
    Object.assign(problem, await response.json());
  } catch {
    problem.detail = `The service answered with status ${response.status}.`;
  }
  const after = Number(response.headers.get("Retry-After"));
  if (after && !problem.retry_after) problem.retry_after = after;
  return problem;
}

async function readJson(response) {
  let text;
  try {
    text = await response.text();
  } catch (error) {
    throw unreachable(error);
  }
  return text ? JSON.parse(text) : null;
}

/** Read from the API. */
export async function get(path, query, signal) {
  return readJson(await send(addressOf(path, query), { signal, headers: { Accept: "application/json" } }));
}

function headersFor(type) {
  const headers = { Accept: "application/json" };
  if (type) headers["Content-Type"] = type;
  if (csrfToken) headers["X-CSRF-Token"] = csrfToken;
  return headers;
}

/** Change something. A POST carries a key, so that it happens once even if it is sent twice. */
export async function change(method, path, body, { type = "application/json", raw = false } = {}) {
  const headers = headersFor(type);
  if (method === "POST") headers["Idempotency-Key"] = newKey();
  const content = raw ? body : JSON.stringify(body ?? {});
  const options = { method, headers, body: method === "DELETE" ? undefined : content };
  for (let tries = 0; ; tries += 1) {
    try {
      return await readJson(await send(addressOf(path), options));
    } catch (error) {
      const again = error instanceof ApiError && error.problem.retryable && [0, 503].includes(error.status);
      if (!again || tries >= 2 || method !== "POST") throw error;
      await pause(error.problem.retry_after ?? 0.5 * 2 ** tries);
    }
  }
}

export const post = (path, body) => change("POST", path, body);

/** Who is signed in: `{name, scopes, by}`; null if somebody must sign in first. */
export async function readPrincipal() {
  try {
    const found = await readJson(await send(new URL("console/session", ROOT), { headers: { Accept: "application/json" } }));
    setCsrfToken(found.csrf_token ?? "");
    return found;
  } catch (error) {
    if (error.status === 401) return null;
    if (error.status === 404) return { name: "local", scopes: ["admin"], by: "local", tenant: "" };
    throw error;
  }
}

/** Sign in with a key. */
export async function signIn(key) {
  const response = await send(new URL("console/sign-in", ROOT), {
    method: "POST", headers: headersFor("application/json"), body: JSON.stringify({ key }),
  });
  const found = await readJson(response);
  setCsrfToken(found.csrf_token ?? "");
  return found;
}

/** Sign out. */
export async function signOut() {
  await send(new URL("console/sign-out", ROOT), { method: "POST", headers: headersFor("application/json"), body: "{}" });
  setCsrfToken("");
}

/** The address of bytes that were stored, and of an export. */
export function linkTo(path) {
  return String(addressOf(path));
}

export function pause(seconds, signal) {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, seconds * 1000);
    signal?.addEventListener("abort", () => { clearTimeout(timer); resolve(); }, { once: true });
  });
}

/**
 * Follow a session from a position until the signal aborts. A connection that breaks is made again.
 *
 * @param session the session
 * @param reader.position returns the position of the reader
 * @param reader.onItem called with each item
 * @param reader.onState called with "live", "connecting", or an ApiError that ends it
 */
export function follow(session, { position, onItem, onState }, signal) {
  const query = () => ({ after: position() === "0" ? "" : position() });
  return keepOpen(`sessions/${pathOf(session)}/events`, query, { onItem, onState }, signal);
}

/**
 * Follow what changes until the signal aborts. A connection that breaks or is refused is made again, and
 * what changed in between is not repeated: whoever follows reads its lists after each "live".
 *
 * @param reader.onItem called with each change
 * @param reader.onState called with "live", "connecting", or an ApiError that ends it
 */
export function followChanges(reader, signal) {
  return keepOpen("changes", () => ({}), reader, signal);
}

async function keepOpen(path, query, { onItem, onState }, signal) {
  let wait = 0.3;
  while (!signal.aborted) {
    try {
      await readStream(addressOf(path, query()), (item) => {
        wait = 0.3;
        onItem(item);
      }, () => onState("live"), signal);
    } catch (error) {
      if (signal.aborted) return;
      if (error instanceof ApiError && [400, 401, 403, 404, 422].includes(error.status)) {
        onState(error);
        return;
      }
      wait = error.problem?.retry_after ?? Math.min(wait * 2, SLOWEST);
    }
    if (signal.aborted) return;
    onState("connecting");
    await pause(wait * (0.75 + Math.random() / 2), signal);
  }
}

/** Read a stream to its end. One that sends nothing, not even a comment, is broken. */
async function readStream(url, onItem, onOpen, signal) {
  const silence = new AbortController();
  let timer = 0;
  const heard = () => {
    clearTimeout(timer);
    timer = setTimeout(() => silence.abort(), SILENCE * 1000);
  };
  heard();
  try {
    const either = AbortSignal.any([signal, silence.signal]);
    const response = await send(url, { signal: either, headers: { Accept: "text/event-stream" } });
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    const parser = new EventParser();
    onOpen();
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      heard();
      for (const event of parser.feed(value)) onItem(JSON.parse(event.data));
    }
  } finally {
    clearTimeout(timer);
  }
}
