// The sources that a text cites: each once, with the words that rest on it. Pure.
import { oneLine } from "./format.js";

const LINK = /^https?:\/\//i;
const MOST_WORDS = 3;

/** Return `{url, title, isLink, cited}` for each source, in the order of the text. */
export function footnotes(text, citations) {
  const characters = Array.from(text); // places count characters, as Python does
  const found = new Map();
  for (const one of citations) {
    const key = one.url || one.title;
    if (!key) continue;
    if (!found.has(key)) found.set(key, { url: one.url ?? "", title: one.title ?? "", isLink: LINK.test(one.url ?? ""), cited: [] });
    const words = oneLine(characters.slice(one.start, one.end).join(""), 80).trim();
    const { cited } = found.get(key);
    if (words && cited.length < MOST_WORDS && !cited.includes(words)) cited.push(words);
  }
  return [...found.values()];
}
