// Keys: each view says which it has while it is shown, and `?` lists them. A key of one letter does
// nothing while somebody writes.
import { signal, useLayoutEffect } from "./dom.js";

export const bindings = signal([]);

const PAUSE = 900;
let begun = "";
let timer = 0;

/** Add keys while a component is shown: `{keys, label, run, inFields?}`. */
export function useKeys(group, list, inputs) {
  useLayoutEffect(() => {
    const added = list.filter(Boolean).map((one) => ({ ...one, group }));
    bindings.value = [...bindings.peek(), ...added];
    return () => { bindings.value = bindings.peek().filter((one) => !added.includes(one)); };
  }, inputs);
}

function nameOf(event) {
  const name = event.key === " " ? "Space" : event.key;
  return event.ctrlKey || event.metaKey ? `Ctrl+${name}` : name;
}

function isField(element) {
  return element.isContentEditable || ["INPUT", "TEXTAREA", "SELECT"].includes(element.tagName);
}

function isModal() {
  return document.querySelector("dialog[open]") !== null;
}

/** Run the binding of a key, or remember that a sequence has begun. */
export function handleKey(event) {
  if (event.defaultPrevented || event.altKey || event.isComposing) return;
  const inField = isField(event.target);
  const typed = begun ? `${begun} ${nameOf(event)}` : nameOf(event);
  const known = bindings.peek().filter((one) => (one.inFields || !inField) && (one.inDialog || !isModal()));
  const found = known.findLast((one) => one.keys === typed && (!one.when || one.when(event)));
  clearTimeout(timer);
  begun = "";
  if (found) {
    event.preventDefault();
    found.run(event);
  } else if (!inField && known.some((one) => one.keys.startsWith(`${typed} `))) {
    begun = typed;
    timer = setTimeout(() => { begun = ""; }, PAUSE);
  }
}
