// The service's routes. The token goes in a header, and no message ever in an address.
import { EventParser } from "./sse.js";

const ANSWER_WITHIN = 20_000; // milliseconds
const SILENT_AT_MOST = 45_000; // the service sends a comment every 15 seconds

/** The service refused a request, with a sentence for a person. */
export class Refused extends Error {
  constructor(status, { kind, message, retryable = false, retry_after: after = 0 }) {
    super(message);
    Object.assign(this, { status, kind, retryable, after });
  }
}

/** Nobody answered, or not the service: what was sent may or may not have arrived. */
export class Unreachable extends Error {}

export class Service {
  constructor(memory) {
    this.memory = memory;
  }

  /** Return the session; begin one if there is none. */
  async begin() {
    if (!this.memory.session) {
      const { session_id: id, token } = await this.#call("POST", "sessions", { json: {} });
      this.memory.session = { id, token };
    }
    return this.memory.session;
  }

  /** Send a message; return the name of its turn. The same id is never answered twice. */
  async post({ id, text, seen }) {
    const { id: session } = await this.begin();
    const json = { user_message: text, session_id: session, message_id: id };
    if (seen >= 0) json.answers_turn = seen; // a question that is open by then is not answered unseen
    const { turn } = await this.#call("POST", "chat", { json, headers: { Prefer: "respond-async" } });
    return turn;
  }

  /** Tell each event of a turn from a position on; return when the stream ends. */
  async follow(turn, position, tell) {
    const quiet = new Watch(SILENT_AT_MOST);
    try {
      const headers = position ? { "Last-Event-ID": position } : {};
      const response = await this.#send("GET", `events/${turn}`, { headers, signal: quiet.signal });
      const parser = new EventParser();
      const decoder = new TextDecoder();
      const reader = response.body.getReader();
      for (;;) {
        const { done, value } = await reader.read();
        if (done) return;
        quiet.reset();
        parser.feed(decoder.decode(value, { stream: true })).forEach(tell);
      }
    } catch (error) {
      throw error instanceof Refused ? error : new Unreachable();
    } finally {
      quiet.end();
    }
  }

  /** Return how far the registration is. */
  async show() {
    return this.#call("GET", `sessions/${this.#session}`);
  }

  /** Return what was written so far. */
  async messages() {
    return (await this.#call("GET", `sessions/${this.#session}/messages`)).messages;
  }

  /** Forget the conversation. */
  async clear() {
    return this.#call("POST", "clear", { json: { session_id: this.#session } });
  }

  /** Send a photo; the same id is the same photo. */
  async uploadPhoto(file, id) {
    const form = new FormData();
    form.append("session_id", this.#session);
    form.append("message_id", id);
    form.append("file", file, "photo");
    return this.#call("POST", "upload_photo", { body: form }, 120_000);
  }

  /** Return the state of the photo, with the seconds after which to ask again. */
  async photoState() {
    return this.#call("GET", `upload-status/${this.#session}`, {}, ANSWER_WITHIN, async (response) => ({
      ...(await response.json()), after: Number(response.headers.get("Retry-After")) || 2,
    }));
  }

  get #session() {
    if (this.memory.session) return this.memory.session.id;
    throw new Refused(404, { kind: "not_found", message: "There is no such conversation." });
  }

  async #call(method, path, options = {}, within = ANSWER_WITHIN, read = readBody) {
    const watch = new Watch(within);
    try {
      const response = await this.#send(method, path, { ...options, signal: watch.signal });
      return await read(response);
    } catch (error) {
      throw error instanceof Refused ? error : new Unreachable();
    } finally {
      watch.end();
    }
  }

  async #send(method, path, { json, body, headers = {}, signal } = {}) {
    const token = this.memory.session?.token;
    const all = { ...headers };
    if (token) all.Authorization = `Bearer ${token}`;
    if (json) all["Content-Type"] = "application/json";
    let response;
    try {
      response = await fetch(path, {
        method, signal, headers: all, body: json ? JSON.stringify(json) : body,
        cache: "no-store", credentials: "omit", referrerPolicy: "no-referrer",
      });
    } catch {
      throw new Unreachable();
    }
    if (response.ok) return response;
    const problem = await response.json().catch(() => null);
    if (!problem?.error?.kind) throw new Unreachable(); // a proxy, while the service restarts
    throw new Refused(response.status, problem.error);
  }
}

function readBody(response) {
  return response.status === 204 ? null : response.json();
}

/** Aborts a request after a time without a sign, and when the browser loses the network. */
class Watch {
  #controller = new AbortController();
  #abort = () => this.#controller.abort();
  #timer;

  constructor(milliseconds) {
    this.milliseconds = milliseconds;
    addEventListener("offline", this.#abort);
    this.reset();
  }

  get signal() {
    return this.#controller.signal;
  }

  reset() {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(this.#abort, this.milliseconds);
  }

  end() {
    clearTimeout(this.#timer);
    removeEventListener("offline", this.#abort);
  }
}
