// The conversation: sends messages until they are answered, and shows what other pages of it have written.
import { makeId } from "./memory.js";
import { Refused, Unreachable } from "./service.js";
import { backOff, pause } from "./waiting.js";

const OFFLINE = "You are offline. What you wrote is safe here, and I send it as soon as you are back.";
const AWAY = "I cannot reach the club at the moment. What you wrote is safe here, and I keep trying.";
const GONE = "That conversation is over, and nothing of it is kept here. Let us start afresh.";
const FORGOTTEN = "The conversation is forgotten. If you like, we can start afresh.";
const NOT_FORGOTTEN = "I could not forget the conversation just now. Please try again in a minute.";

export class Conversation {
  #lines = []; // of the service, as they are shown
  #turn = -1; // asked what is shown last
  #isStale = false; // there is more at the service than is shown
  #generation = 0; // another one begins when the conversation is forgotten
  busy = false;

  constructor(service, memory, view) {
    Object.assign(this, { service, memory, view });
  }

  /** Show the conversation that this browser has begun, and go on with a message that was not answered. */
  async open() {
    this.view.begin();
    const generation = this.#generation;
    for (let attempt = 0; this.memory.session && generation === this.#generation; attempt += 1) {
      try {
        await this.#load();
        break;
      } catch (error) {
        if (!(error instanceof Unreachable || error.retryable)) return this.#fail(error, null);
        this.#tellAway();
        await pause(backOff(attempt));
      }
    }
    this.view.calm();
    const pending = this.memory.pending;
    if (pending && generation === this.#generation) await this.#deliver(pending);
    return undefined;
  }

  /** Send a message; while another one is under way, do nothing. */
  async send(text) {
    if (this.busy || !text.trim()) return;
    const pending = { id: makeId(), text: text.trim(), seen: this.#turn };
    this.memory.pending = pending;
    await this.#deliver(pending);
  }

  /** Show what another page or device has written in this conversation. */
  async refresh() {
    this.#isStale = this.busy;
    if (this.busy || !this.memory.session) return;
    try {
      await this.#load();
    } catch (error) {
      if (isGone(error)) this.#fail(error, null); // anything else is told when it is needed
    }
  }

  /** Look whether there is something new, which costs the service little. */
  async look() {
    if (this.busy || !this.memory.session) return;
    const shown = await this.service.show().catch(() => null);
    if (shown && shown.turn !== this.#turn) await this.refresh();
  }

  /** Forget the conversation, here and at the service. */
  async forget() {
    try {
      await this.service.clear();
    } catch (error) {
      if (!(error instanceof Refused && error.status === 404)) {
        this.view.trouble(NOT_FORGOTTEN);
        return;
      }
    }
    this.#startAfresh(FORGOTTEN);
  }

  async #load() {
    const shown = await this.service.show(); // first, so that no question counts as seen before it is shown
    const lines = await this.service.messages();
    if (this.busy) return;
    const fits = this.#lines.every((line, at) => line.by === lines[at]?.by && line.text === lines[at]?.text);
    if (!fits) {
      this.view.begin();
      this.#lines = [];
    }
    const more = lines.slice(this.#lines.length);
    if (more.length > 2) this.view.hush(); // nobody wants to hear the whole conversation again
    more.forEach((line) => this.#add(line));
    this.#describe(shown);
  }

  async #deliver(pending) {
    const generation = this.#generation;
    this.busy = true;
    const last = this.#lines.at(-1);
    if (last?.by !== "parent" || last.text !== pending.text) this.#add({ by: "parent", text: pending.text });
    this.view.sending(true);
    let answered = false;
    try {
      const answer = await this.#converse(pending, generation);
      if (generation !== this.#generation) return;
      this.memory.answered(pending.id);
      this.view.calm();
      this.#add({ by: "club", text: answer.response });
      this.#turn = answer.turn ?? this.#turn;
      answered = true;
    } catch (error) {
      if (generation === this.#generation) this.#fail(error, pending);
    } finally {
      if (generation === this.#generation) {
        this.busy = false;
        this.view.sending(false);
      }
    }
    await this.#update(answered);
  }

  async #converse(pending, generation) {
    let [turn, position] = [null, ""];
    for (let attempt = 0; generation === this.#generation; attempt += 1) {
      try {
        turn ??= await this.service.post(pending);
        let end = null;
        await this.service.follow(turn, position, (event) => {
          attempt = 0;
          position = event.id || position;
          if (event.type === "answer" || event.type === "error") end = event;
          else if (generation === this.#generation) this.view.tell(event);
        });
        if (end?.type === "answer") return end.data;
        if (end) throw new Refused(503, end.data.error);
        this.view.calm(); // the service stops, and another one goes on
      } catch (error) {
        if (error instanceof Unreachable) this.#tellAway();
        else if (error.kind === "busy" || error.kind === "too_many_requests") turn = null;
        else throw error;
        if (error.after) await pause(error.after * 1000);
      }
      await pause(backOff(attempt));
    }
    throw new Unreachable();
  }

  async #update(answered) {
    if (!this.memory.session) return;
    if (this.#isStale) {
      await this.refresh();
      return;
    }
    const shown = await this.service.show().catch(() => null);
    if (!shown || this.busy) return;
    if (shown.turn === this.#turn || !answered) this.view.describe(shown);
    else await this.refresh();
  }

  #describe(shown) {
    this.#turn = shown.turn;
    this.view.describe(shown);
  }

  #add(line) {
    this.#lines.push(line);
    this.view.add(line);
  }

  #tellAway() {
    this.view.trouble(navigator.onLine ? AWAY : OFFLINE);
  }

  #fail(error, pending) {
    if (isGone(error)) {
      this.#startAfresh(GONE);
      if (pending) this.view.giveBack(pending.text);
    } else if (error.retryable && pending) {
      this.view.trouble(error.message, "Send it again", () => this.#deliver(pending));
    } else {
      if (pending) {
        this.memory.answered(pending.id);
        this.view.giveBack(pending.text);
      }
      this.view.trouble(error instanceof Refused ? error.message : AWAY);
    }
  }

  #startAfresh(why) {
    this.#generation += 1;
    this.memory.forget();
    this.#lines = [];
    this.#turn = -1;
    this.busy = false;
    this.view.begin();
    this.view.describe(null);
    this.view.sending(false);
    this.view.trouble(why);
  }
}

function isGone(error) {
  return error.status === 404 || error.status === 401;
}
