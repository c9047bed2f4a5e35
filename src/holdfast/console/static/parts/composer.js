// Where a message is written: Enter sends it, pictures are pasted, dropped or chosen.
import { html, useEffect, useId, useLayoutEffect, useRef, useState } from "../lib/dom.js";
import { attempt, tell } from "../lib/store.js";
import { visible } from "../lib/format.js";
import { useKeys } from "../lib/keys.js";
import { Button } from "./basics.js";

const LARGEST = 8 * 2 ** 20;

// Whether the field was written in when its view ended. The next view's field then has the focus,
// so that the letters that somebody goes on to write are no keys.
let goesOn = false;

async function readPicture(file) {
  if (!file.type.startsWith("image/")) return tell(`${file.name} is not a picture.`, "error") ?? null;
  if (file.size > LARGEST) return tell(`${file.name} is larger than 8 MB.`, "error") ?? null;
  const data = await new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(reader.result);
    reader.onerror = () => reject(reader.error);
    reader.readAsDataURL(file);
  });
  return { name: file.name || "picture", url: data, type: file.type, data: data.slice(data.indexOf(",") + 1) };
}

/** The message as the API takes it: a text, or parts. */
export function messageOf(text, pictures) {
  if (!pictures.length) return text;
  return [
    ...(text ? [{ type: "text", text }] : []),
    ...pictures.map((one) => ({ type: "media", media_type: one.type, data: one.data, name: one.name })),
  ];
}

export function Composer({ isRunning, isWaiting, onSend, onStop, placeholder, draft, takesFocus = false }) {
  const [text, setText] = useState("");
  const [pictures, setPictures] = useState([]);
  const [isSending, setSending] = useState(false);
  const field = useRef(null);
  const chooser = useRef(null);
  const id = useId();
  const isBusy = isRunning || isWaiting;
  useKeys("Conversation", [
    { keys: "i", label: "Write a message", run: () => field.current?.focus() },
    isRunning && { keys: "Ctrl+.", label: "Stop the turn", run: onStop, inFields: true },
  ], [isRunning]);
  useLayoutEffect(() => {
    const element = field.current;
    if (takesFocus || goesOn) element.focus();
    goesOn = false;
    return () => { goesOn = document.activeElement === element; };
  }, []);
  useEffect(() => {
    if (draft) {
      setText(draft.text);
      field.current?.focus();
    }
  }, [draft]);
  useEffect(() => {
    const element = field.current;
    element.style.height = "auto";
    element.style.height = `${Math.min(element.scrollHeight + 2, 240)}px`;
  }, [text]);
  const add = async (files) => {
    const read = (await Promise.all([...files].map(readPicture))).filter(Boolean);
    setPictures((before) => [...before, ...read]);
  };
  const send = async () => {
    const trimmed = text.trim();
    if ((!trimmed && !pictures.length) || isSending || isBusy) return;
    setSending(true);
    const sent = await attempt(async () => { await onSend(messageOf(trimmed, pictures), trimmed); return true; });
    setSending(false);
    if (sent) {
      setText("");
      setPictures([]);
    }
    field.current?.focus();
  };
  const onKeyDown = (event) => {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
      event.preventDefault();
      send();
    } else if (event.key === "Escape") field.current.blur();
  };
  return html`<form class="composer" onSubmit=${(event) => { event.preventDefault(); send(); }}
      onDragOver=${(event) => event.preventDefault()} onDrop=${(event) => { event.preventDefault(); add(event.dataTransfer.files); }}>
    ${pictures.length ? html`<div class="attached">${pictures.map((one, at) => html`<span key=${at}><img src=${one.url} alt=${visible(one.name)} />
      <button type="button" class="plain" aria-label=${`Remove ${visible(one.name)}`} onClick=${() => setPictures(pictures.filter((_, other) => other !== at))}>\u00d7</button></span>`)}</div>` : null}
    <label class="hidden" for=${id}>Message</label>
    <textarea id=${id} ref=${field} rows="1" dir="auto" value=${text} placeholder=${isWaiting ? "The run waits for an answer" : placeholder} onInput=${(event) => setText(event.target.value)}
      onKeyDown=${onKeyDown} onPaste=${(event) => { if (event.clipboardData.files.length) { event.preventDefault(); add(event.clipboardData.files); } }}></textarea>
    <div class="tools">
      <input ref=${chooser} type="file" accept="image/*" multiple class="hidden" tabindex="-1" aria-label="Pictures" onChange=${(event) => { add(event.target.files); event.target.value = ""; }} />
      <${Button} tone="plain" label="Picture" onClick=${() => chooser.current.click()} />
      <span class="quiet">Enter sends, Shift+Enter breaks the line</span>
      ${isRunning ? html`<${Button} tone="bad" label="Stop" keys="Ctrl+." onClick=${onStop} />` : html`<button type="submit" class="button primary" disabled=${isSending || isWaiting || (!text.trim() && !pictures.length)}>Send<kbd aria-hidden="true">\u21b5</kbd></button>`}
    </div>
  </form>`;
}
