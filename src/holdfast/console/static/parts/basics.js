// Small parts that every view uses.
import { classes, html, useEffect, useId, useLayoutEffect, useRef, useSignal, useState } from "../lib/dom.js";
import { STATES } from "../lib/runs.js";
import { ago, clock, count, visible } from "../lib/format.js";
import { messages } from "../lib/store.js";

/** The state of a run: a sign, a colour and a word. */
export function State({ name, brief = false }) {
  const state = STATES[name] ?? STATES.idle;
  return html`<span class=${`state tone-${state.tone}`} title=${state.about}>
    <span class="sign" aria-hidden="true">${state.sign}</span><span class=${brief ? "brief" : ""}>${state.name}</span>
  </span>`;
}

/** Text of a person, a model or a tool: its direction stays its own. */
export function Words({ text, as = "bdi", ...rest }) {
  return html`<${as} dir="auto" ...${rest}>${visible(text)}<//>`;
}

/** A time, as long ago; the exact time is its title. `after` follows all but "now". */
export function Ago({ at, now, after = "" }) {
  const since = ago(at, now);
  return html`<time dateTime=${new Date(at * 1000).toISOString()} title=${clock(at, now)}>${since}${since === "now" ? "" : after}</time>`;
}

/** Tokens of a turn: what counts, and what failed attempts cost beside it. */
export function Tokens({ usage, lost }) {
  const wasted = (lost?.input ?? 0) + (lost?.output ?? 0);
  if (!usage.input && !usage.output && !wasted) return null;
  return html`<span class="tokens" title="tokens in, tokens out">
    ${count(usage.input)} in, ${count(usage.output)} out${wasted ? html`<span class="lost" title="tokens of failed attempts">, ${count(wasted)} lost</span>` : null}
  </span>`;
}

export function Button({ label, keys, tone = "", children, ...rest }) {
  return html`<button type="button" class=${classes("button", tone)} ...${rest}>
    ${children ?? label}${keys ? html`<kbd aria-hidden="true">${keys}</kbd>` : null}
  </button>`;
}

/** A dialog of the browser: it takes the focus, and Escape closes it. */
export function Dialog({ title, onClose, children, wide = false }) {
  const element = useRef(null);
  const id = useId();
  useLayoutEffect(() => {
    const dialog = element.current;
    const before = document.activeElement;
    dialog.showModal();
    return () => {
      dialog.close();
      if (before instanceof HTMLElement && before.isConnected) before.focus();
    };
  }, []);
  return html`<dialog ref=${element} class=${wide ? "wide" : ""} aria-labelledby=${id}
      onCancel=${(event) => { event.preventDefault(); onClose(); }}
      onClick=${(event) => { if (event.target === element.current) onClose(); }}>
    <div class="dialog">
      <header><h2 id=${id}>${title}</h2>
        <button type="button" class="plain" onClick=${onClose} aria-label="Close">\u00d7</button></header>
      ${children}
    </div>
  </dialog>`;
}

/** Ask before something that cannot be undone, or for one text. */
export function Ask({ title, text, action, tone = "", field, value = "", onDone, onClose }) {
  const [given, setGiven] = useState(value);
  const id = useId();
  const submit = (event) => {
    event.preventDefault();
    onDone(given);
  };
  return html`<${Dialog} title=${title} onClose=${onClose}>
    <form onSubmit=${submit}>
      ${text ? html`<p>${text}</p>` : null}
      ${field ? html`<label for=${id}>${field}</label>
        <textarea id=${id} rows=${value.length > 80 ? 6 : 2} value=${given} onInput=${(event) => setGiven(event.target.value)} autofocus
          onKeyDown=${(event) => { if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) submit(event); }}></textarea>` : null}
      <footer><${Button} label="Back" onClick=${onClose} />
        <button type="submit" class=${classes("button", tone || "primary")} autofocus=${!field}>${action}</button></footer>
    </form>
  <//>`;
}

/** Messages about acts, read aloud by screen readers. */
export function Messages() {
  const shown = useSignal(messages);
  return html`<div class="messages" role="status" aria-live="polite">
    ${shown.map((one) => html`<p key=${one.id} class=${one.kind}>${visible(one.text)}${one.fix ? html`<small>${visible(one.fix)}</small>` : null}</p>`)}
  </div>`;
}

/** A part that is folded until it is opened. The content is made when it is first needed. */
export function Fold({ label, open = false, children, ...rest }) {
  const [isOpen, setOpen] = useState(open);
  return html`<details open=${isOpen} onToggle=${(event) => setOpen(event.currentTarget.open)} ...${rest}>
    <summary>${label}</summary>${isOpen ? children() : null}
  </details>`;
}

/** A list of rows of one height, of which only those that are seen exist. */
export function Rows({ rows, height, render, className, label, selected = -1, onEnd, role = "list" }) {
  const box = useRef(null);
  const [range, setRange] = useState([0, 40]);
  const measure = () => {
    const element = box.current;
    if (!element) return;
    const first = Math.max(0, Math.floor(element.scrollTop / height) - 8);
    const last = Math.ceil((element.scrollTop + element.clientHeight) / height) + 8;
    setRange((before) => (before[0] === first && before[1] === last ? before : [first, last]));
    if (onEnd && element.scrollTop + element.clientHeight > element.scrollHeight - 12 * height) onEnd();
  };
  useEffect(() => {
    const watcher = new ResizeObserver(measure);
    watcher.observe(box.current);
    return () => watcher.disconnect();
  }, []);
  useEffect(measure, [rows.length]);
  useLayoutEffect(() => {
    const element = box.current;
    if (selected < 0) return;
    const top = selected * height;
    if (top < element.scrollTop) element.scrollTop = top;
    else if (top + height > element.scrollTop + element.clientHeight) element.scrollTop = top + height - element.clientHeight;
  }, [selected]);
  const shown = rows.slice(range[0], range[1]);
  return html`<div ref=${box} class=${classes("rows", className)} onScroll=${measure} role=${role} aria-label=${label} tabindex="0">
    <div role="presentation" style=${{ height: `${rows.length * height}px` }}>
      <div role="presentation" style=${{ transform: `translateY(${range[0] * height}px)` }}>
        ${shown.map((row, index) => render(row, range[0] + index))}
      </div>
    </div>
  </div>`;
}
