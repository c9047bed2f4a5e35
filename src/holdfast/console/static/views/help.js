// The list of keys that work here and now.
import { html, useSignal } from "../lib/dom.js";
import { bindings } from "../lib/keys.js";
import { Dialog } from "../parts/basics.js";

export function Help({ onClose }) {
  const groups = new Map();
  for (const one of useSignal(bindings)) {
    if (!groups.has(one.group)) groups.set(one.group, []);
    groups.get(one.group).push(one);
  }
  return html`<${Dialog} title="Keys" onClose=${onClose} wide>
    <div class="keys">${[...groups].map(([name, list]) => html`<section key=${name}><h3>${name}</h3>
      <dl>${list.map((one) => html`<div key=${one.keys}><dt>${one.keys.split(" ").map((part) => html`<kbd key=${part}>${part}</kbd> `)}</dt><dd>${one.label}</dd></div>`)}</dl></section>`)}</div>
  <//>`;
}
