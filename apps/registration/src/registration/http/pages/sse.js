// Reads server-sent events from pieces of text.

/** Collects the pieces of a stream. */
export class EventParser {
  #rest = "";
  #event = { id: "", type: "message", data: [] };

  /** Return the events that end in this piece: `{id, type, data}`, with the data decoded from JSON. */
  feed(piece) {
    const lines = (this.#rest + piece).split("\n");
    this.#rest = lines.pop();
    return lines.map((line) => this.#read(line.replace(/\r$/, ""))).filter(Boolean);
  }

  #read(line) {
    if (line === "") {
      const { id, type, data } = this.#event;
      this.#event = { id: "", type: "message", data: [] };
      return data.length ? { id, type, data: JSON.parse(data.join("\n")) } : null;
    }
    const [, name, value] = /^([^:]*):? ?(.*)$/.exec(line);
    if (name === "data") this.#event.data.push(value);
    else if (name === "id") this.#event.id = value;
    else if (name === "event") this.#event.type = value;
    return null;
  }
}
