// Text that arrives in pieces. Offsets count characters as Python does: code points, not UTF-16 units.

const PAIR = /[\ud800-\udbff][\udc00-\udfff]/;

/** The number of code points of a text. */
export function codePoints(text) {
  if (!PAIR.test(text)) return text.length;
  let count = 0;
  for (const _ of text) count += 1;
  return count;
}

/** The first characters of a text. */
export function firstPoints(text, number) {
  if (!PAIR.test(text)) return text.slice(0, number);
  let at = 0;
  let left = number;
  while (left > 0 && at < text.length) {
    at += text.codePointAt(at) > 0xffff ? 2 : 1;
    left -= 1;
  }
  return text.slice(0, at);
}

/** A text in progress: `shown = shown[:offset] + text`. */
export class GrowingText {
  constructor() {
    this.text = "";
    this.length = 0;
  }

  put(offset, text) {
    const kept = offset >= this.length ? this.text : firstPoints(this.text, offset);
    this.length = Math.min(offset, this.length) + codePoints(text);
    this.text = kept + text;
  }

  clear() {
    this.text = "";
    this.length = 0;
  }
}
