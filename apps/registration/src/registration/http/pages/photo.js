// The photo: chosen, shown, sent, and asked for until it was checked.
import { makeId } from "./memory.js";
import { Unreachable } from "./service.js";
import { backOff, pause } from "./waiting.js";

const MOST_BYTES = 10_000_000;
const ASK_AT_MOST = 600_000; // milliseconds
const KINDS = ["image/jpeg", "image/jpg", "image/png", "image/webp", "image/heic", "image/heif", ""];
const PROGRESS = {
  stored: "Your photo has arrived.",
  converting: "Your photo has arrived. I am preparing it.",
  checking: "Your photo has arrived. I am looking at it.",
  saving: "Your photo is fine. I am saving it.",
};
const LATER = "Checking your photo takes longer than usual. Nothing is lost: I look again when you come back to this page.";

export class Photo {
  #file = null;
  #id = "";
  #asking = false;

  constructor(service, conversation, view) {
    Object.assign(this, { service, conversation, view });
  }

  /** Show a file before it is sent, or say why it cannot be. */
  choose(file) {
    this.#file = null;
    if (!KINDS.includes(file.type)) {
      this.view.photo({ text: "Please choose a photo: a JPEG, PNG, WebP or HEIC picture." });
    } else if (file.size > MOST_BYTES) {
      this.view.photo({ text: "This photo is larger than 10 MB. Please choose a smaller one." });
    } else {
      [this.#file, this.#id] = [file, makeId()];
      this.view.photo({ file, text: "Is this the right photo?", canSend: true });
    }
  }

  /** Send the file, as often as it takes, and ask for its state until it was checked. */
  async send() {
    const file = this.#file;
    if (!file) return;
    this.view.photo({ text: "I am sending your photo." });
    for (let attempt = 0; file === this.#file; attempt += 1) {
      try {
        const sent = await this.service.uploadPhoto(file, this.#id);
        if (file !== this.#file) return;
        this.#file = null;
        this.view.photo({ text: sent.processing === false ? "" : PROGRESS.stored });
        await this.ask();
        return;
      } catch (error) {
        if (file !== this.#file) return;
        if (!(error instanceof Unreachable) && !(error.retryable && attempt < 5)) {
          this.view.photo({ text: error.message, canDrop: true });
          return;
        }
        this.view.photo({ text: "Your photo could not be sent yet. I keep trying.", canDrop: true });
        await pause(Math.max(backOff(attempt), (error.after ?? 0) * 1000));
      }
    }
  }

  /** Forget the photo that was chosen. */
  forget() {
    this.#file = null;
    this.view.photo(null);
  }

  /** Ask for the state of a photo that was sent before, if there is one. */
  async resume() {
    const state = await this.service.photoState().catch(() => null);
    if (state && !state.complete) await this.ask();
    else if (state && state.state !== "done") this.view.photo({ text: wordOf(state), canDrop: true });
  }

  /** Ask for the state until the photo was checked, for ten minutes at most. */
  async ask() {
    if (this.#asking) return;
    this.#asking = true;
    const begun = Date.now();
    try {
      for (let attempt = 0; Date.now() - begun < ASK_AT_MOST;) {
        let wait = 2000;
        try {
          const state = await this.service.photoState();
          attempt = 0;
          if (state.complete) return await this.#end(state);
          this.view.photo({ text: PROGRESS[state.progress] ?? state.message ?? PROGRESS.stored });
          wait = state.after * 1000;
        } catch (error) {
          if (!(error instanceof Unreachable || error.retryable)) return this.view.photo(null);
          wait = error instanceof Unreachable ? backOff(attempt) : Math.max(error.after * 1000, wait);
          attempt += 1;
        }
        await pause(wait);
      }
      this.view.photo({ text: LATER });
    } finally {
      this.#asking = false;
    }
    return undefined;
  }

  async #end(state) {
    if (state.state === "done") this.view.photo(null);
    else this.view.photo({ text: wordOf(state), canDrop: true });
    await this.conversation.refresh();
  }
}

function wordOf(state) {
  return state.response || state.message || "Please send the photo again.";
}
