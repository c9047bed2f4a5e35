// What the browser keeps: the session with its token, and the message that is not answered yet.
// Nothing of it ever stands in an address.

const SESSION = "registration.session";
const PENDING = "registration.pending";

/** Keeps values in a storage; without one, only until the page is closed. */
export class Memory {
  #storage;
  #otherwise = new Map();

  constructor(storage) {
    this.#storage = storage;
  }

  get session() {
    return this.#read(SESSION);
  }

  set session(value) {
    this.#write(SESSION, value);
  }

  get pending() {
    return this.#read(PENDING);
  }

  set pending(value) {
    this.#write(PENDING, value);
  }

  /** Forget a message that was answered, unless another page has sent one since. */
  answered(id) {
    if (this.pending?.id === id) this.pending = null;
  }

  forget() {
    this.session = null;
    this.pending = null;
  }

  #read(name) {
    try {
      return JSON.parse(this.#storage.getItem(name));
    } catch {
      return this.#otherwise.get(name) ?? null;
    }
  }

  #write(name, value) {
    try {
      if (value === null) this.#storage.removeItem(name);
      else this.#storage.setItem(name, JSON.stringify(value));
    } catch {
      this.#otherwise.set(name, value);
    }
  }
}

/** Return the storage of the browser; null where it is switched off. */
export function findStorage() {
  try {
    return globalThis.localStorage;
  } catch {
    return null;
  }
}

/** Return 128 random bits: the id of a message. */
export function makeId() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}
