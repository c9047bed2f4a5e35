// Reads server-sent events from pieces of text. Pure: it neither waits nor connects.

/** Collects pieces of a stream and returns the events that are complete. */
export class EventParser {
  constructor() {
    this.rest = "";
    this.reset();
  }

  reset() {
    this.id = "";
    this.type = "";
    this.data = [];
  }

  /** Return the events that end in this piece: `{id, type, data}`. */
  feed(piece) {
    const lines = (this.rest + piece).split(/\r\n|\n|\r(?!$)/);
    this.rest = lines.pop();
    const events = [];
    for (const line of lines) {
      if (line === "") this.#end(events);
      else this.#read(line);
    }
    return events;
  }

  #read(line) {
    if (line.startsWith(":")) return;
    const colon = line.indexOf(":");
    const name = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(colon + (line[colon + 1] === " " ? 2 : 1));
    if (name === "data") this.data.push(value);
    else if (name === "id") this.id = value;
    else if (name === "event") this.type = value;
  }

  #end(events) {
    if (this.data.length) {
      events.push({ id: this.id, type: this.type || "message", data: this.data.join("\n") });
    }
    this.reset();
  }
}
