// A question of a run: what it asks, what was answered and by whom; and the form that answers it.
import { html, useId, useMemo, useNow, useRef, useState } from "../lib/dom.js";
import { clock, duration, visible } from "../lib/format.js";
import { judgeArguments } from "../lib/schema.js";
import { agents, attempt, may, refresh, tell } from "../lib/store.js";
import { pathOf, post } from "../lib/api.js";
import { useKeys } from "../lib/keys.js";
import { Button, Words } from "./basics.js";

/** The arguments of a call, one row for each. */
export function Arguments({ value }) {
  const rows = Object.entries(value ?? {});
  if (!rows.length) return html`<p class="quiet">no arguments</p>`;
  return html`<dl class="arguments">${rows.map(([name, one]) => html`<div key=${name}>
    <dt>${visible(name)}</dt><dd><${Words} as="code" text=${typeof one === "string" ? one : JSON.stringify(one, null, 1)} /></dd>
  </div>`)}</dl>`;
}

/** How long there is, and what happens then. */
export function Deadline({ until }) {
  const now = useNow(1, until !== null);
  if (until === null) return html`<p class="quiet">No deadline: the run waits until somebody answers.</p>`;
  const left = until - now;
  if (left <= 0) return html`<p class="deadline over">The time is over: it counts as no.</p>`;
  return html`<p class=${left < 120 ? "deadline soon" : "deadline"}>
    ${duration(left)} left, until ${clock(until, now)}. Then it counts as no, and the run continues without it.</p>`;
}

/** Send an answer; tell whose answer counts. Returns whether this one does. */
export async function sendAnswer(question, answer) {
  const body = { key: question.key, binding: question.binding, ...answer };
  const receipt = await attempt(() => post(`sessions/${pathOf(question.session)}/answers`, body));
  if (!receipt) return false;
  if (receipt.accepted) tell(DONE[answer.answer], "good");
  else tell(refusalOf(receipt), "error");
  await refresh();
  return receipt.accepted;
}

const DONE = { approve: "Approved. The run continues.", deny: "Denied. The run continues.", continue: "The run continues.", value: "Answered. The run continues." };

function refusalOf(receipt) {
  switch (receipt.reason) {
    case "answered": return receipt.by_whom ? `${visible(receipt.by_whom)} was first: their answer counts.` : "Somebody else was first: their answer counts.";
    case "late": return "It is too late: the question has ended.";
    case "mismatch": return "The question has changed since it was shown. Read it again.";
    default: return "There is no such question any more.";
  }
}

/** The form for an open question. `isActive` gives it the keys. */
export function QuestionForm({ question, isActive = false }) {
  if (!may("answer")) return html`<p class="quiet">Your key cannot answer questions.</p>`;
  switch (question.kind) {
    case "PermissionQuestion": return html`<${Permission} question=${question} isActive=${isActive} />`;
    case "ContinuationQuestion": return html`<${Continuation} question=${question} isActive=${isActive} />`;
    case "ClarificationQuestion": return html`<${Clarification} question=${question} />`;
    default: return html`<${AnyValue} question=${question} />`;
  }
}

function schemaOf(question) {
  const agent = agents.peek().find((one) => one.name === question.agent);
  return agent?.tools.find((one) => one.name === question.question.tool)?.parameters;
}

function useSending() {
  const [isSending, setSending] = useState(false);
  const send = async (question, answer) => {
    if (isSending) return;
    setSending(true);
    await sendAnswer(question, answer);
    setSending(false);
  };
  return [isSending, send];
}

function Permission({ question, isActive }) {
  const [mode, setMode] = useState("");
  const [isSending, send] = useSending();
  const [remember, setRemember] = useState("once");
  const rememberId = useId();
  const extra = remember === "once" ? {} : { remember };
  const approve = () => send(question, { answer: "approve", ...extra });
  useKeys("This question", isActive ? [
    { keys: "a", label: "Approve", run: approve },
    { keys: "e", label: "Edit the arguments, then approve", run: () => setMode("edit") },
    { keys: "d", label: "Deny with a reason", run: () => setMode("deny") },
  ] : [], [isActive, question.key, question.binding, remember, isSending]);
  if (mode === "edit") return html`<${EditForm} question=${question} isSending=${isSending} onBack=${() => setMode("")}
    onSend=${(value) => send(question, { answer: "approve", arguments: value, ...extra })} />`;
  if (mode === "deny") return html`<${DenyForm} isSending=${isSending} onBack=${() => setMode("")}
    onSend=${(reason) => send(question, { answer: "deny", ...(reason ? { reason } : {}), ...extra })} />`;
  return html`<div class="answer">
    <${Button} label="Approve" tone="primary good" keys=${isActive ? "a" : ""} disabled=${isSending} onClick=${approve} />
    <${Button} label="Edit" keys=${isActive ? "e" : ""} disabled=${isSending} onClick=${() => setMode("edit")} />
    <${Button} label="Deny" tone="bad" keys=${isActive ? "d" : ""} disabled=${isSending} onClick=${() => setMode("deny")} />
    <span class="remember"><label for=${rememberId}>applies to</label>
      <select id=${rememberId} value=${remember} onChange=${(event) => setRemember(event.target.value)}>
        <option value="once">this call</option><option value="call">these arguments</option><option value="tool">this tool</option>
      </select></span>
  </div>`;
}

function EditForm({ question, isSending, onSend, onBack }) {
  const original = useMemo(() => JSON.stringify(question.question.arguments ?? {}, null, 2), [question.key]);
  const [text, setText] = useState(original);
  const id = useId();
  const schema = schemaOf(question);
  const { value, problems } = judgeArguments(text, schema);
  const canSend = !problems.length && !isSending;
  const submit = (event) => {
    event.preventDefault();
    if (canSend) onSend(value);
  };
  return html`<form class="edit" onSubmit=${submit}>
    <label for=${id}>Arguments as the tool will get them, as JSON</label>
    <textarea id=${id} class="mono" rows=${Math.min(18, text.split("\n").length + 1)} value=${text} spellcheck="false" autofocus
      ref=${focusOnce} aria-invalid=${problems.length > 0} aria-describedby=${`${id}-problems`}
      onInput=${(event) => setText(event.target.value)}
      onKeyDown=${(event) => { if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) submit(event); if (event.key === "Escape") onBack(); }}></textarea>
    <ul id=${`${id}-problems`} class="problems" aria-live="polite">${problems.map((one, at) => html`<li key=${at}>${one.path ? html`<code>${visible(one.path)}</code> ` : ""}${visible(one.problem)}</li>`)}</ul>
    ${!problems.length ? html`<p class="quiet">${text === original ? "Not changed." : changedNames(question.question.arguments ?? {}, value)}${schema ? "" : " The schema of this tool is not known here; the service judges it."}</p>` : null}
    <div class="answer">
      <button type="submit" class="button primary good" disabled=${!canSend}>Approve with these<kbd aria-hidden="true">Ctrl+\u21b5</kbd></button>
      <${Button} label="Back" onClick=${onBack} />
    </div>
  </form>`;
}

function changedNames(before, after) {
  const names = [...new Set([...Object.keys(before), ...Object.keys(after)])]
    .filter((name) => JSON.stringify(before[name]) !== JSON.stringify(after[name]));
  return names.length ? `Changed: ${visible(names.join(", "))}.` : "Same values.";
}

function focusOnce(element) {
  if (element && !element.dataset.seen) {
    element.dataset.seen = "yes";
    element.focus();
  }
}

function DenyForm({ isSending, onSend, onBack }) {
  const [reason, setReason] = useState("");
  const id = useId();
  const submit = (event) => {
    event.preventDefault();
    if (!isSending) onSend(reason.trim());
  };
  return html`<form class="edit" onSubmit=${submit}>
    <label for=${id}>Why not? The model reads this. It may stay empty.</label>
    <textarea id=${id} rows="2" value=${reason} ref=${focusOnce} onInput=${(event) => setReason(event.target.value)}
      onKeyDown=${(event) => { if (event.key === "Enter" && !event.shiftKey) submit(event); if (event.key === "Escape") onBack(); }}></textarea>
    <div class="answer"><button type="submit" class="button primary bad" disabled=${isSending}>Deny<kbd aria-hidden="true">\u21b5</kbd></button>
      <${Button} label="Back" onClick=${onBack} /></div>
  </form>`;
}

function Continuation({ question, isActive }) {
  const [isSending, send] = useSending();
  const [more, setMore] = useState(question.question.extension ?? 3);
  const id = useId();
  const go = () => send(question, { answer: "continue", iterations: Number(more) });
  useKeys("This question", isActive ? [{ keys: "a", label: "Continue", run: go }] : [], [isActive, question.key, more, isSending]);
  return html`<div class="answer">
    <label for=${id}>more iterations</label>
    <input id=${id} type="number" min="1" max="1000" value=${more} onInput=${(event) => setMore(event.target.value)} />
    <${Button} label="Continue" tone="primary good" keys=${isActive ? "a" : ""} disabled=${isSending} onClick=${go} />
    <${Button} label="Stop here" tone="bad" disabled=${isSending} onClick=${() => send(question, { answer: "deny" })} />
  </div>`;
}

function Clarification({ question }) {
  const [isSending, send] = useSending();
  const [text, setText] = useState("");
  const id = useId();
  const submit = (event) => {
    event.preventDefault();
    if (text.trim()) send(question, { answer: "value", value: text });
  };
  return html`<form class="edit" onSubmit=${submit}>
    <div class="answer">${(question.question.options ?? []).map((one) => html`<${Button} key=${one} label=${visible(one)} disabled=${isSending} onClick=${() => send(question, { answer: "value", value: one })} />`)}</div>
    <label for=${id}>Answer</label>
    <textarea id=${id} rows="2" value=${text} onInput=${(event) => setText(event.target.value)}></textarea>
    <div class="answer"><button type="submit" class="button primary" disabled=${isSending || !text.trim()}>Answer</button></div>
  </form>`;
}

function AnyValue({ question }) {
  const [isSending, send] = useSending();
  const [text, setText] = useState("");
  const id = useId();
  const submit = (event) => {
    event.preventDefault();
    let value = text;
    try { value = JSON.parse(text); } catch { /* a text */ }
    send(question, { answer: "value", value });
  };
  return html`<form class="edit" onSubmit=${submit}>
    <label for=${id}>Answer, as JSON or text</label>
    <textarea id=${id} class="mono" rows="2" value=${text} onInput=${(event) => setText(event.target.value)}></textarea>
    <div class="answer"><button type="submit" class="button primary" disabled=${isSending}>Answer</button></div>
  </form>`;
}

/** What a question asks, in words. */
export function QuestionText({ question }) {
  const shown = question.question ?? {};
  switch (question.kind) {
    case "PermissionQuestion": return html`<div><p class="ask">May <code class="tool">${visible(shown.tool ?? "")}</code> run?${shown.description && shown.description !== "No description available" ? html` <span class="quiet">${visible(shown.description)}</span>` : null}</p>
      <${Arguments} value=${shown.arguments} /></div>`;
    case "ContinuationQuestion": return html`<p class="ask">The limit of ${shown.limit} iterations is reached. May the run continue?</p>`;
    case "ClarificationQuestion": return html`<${Words} as="p" class="ask" text=${shown.question ?? ""} />`;
    default: return html`<div><p class="ask">${visible(question.kind)}</p><${Arguments} value=${shown} /></div>`;
  }
}

/** How a question ended: the answer, who gave it, and when. */
export function Decision({ question, now }) {
  if (question.why) return html`<p class="decision">nobody answered: ${WHY[question.why] ?? visible(question.why)}</p>`;
  const answer = question.answer;
  const who = question.by ? html` by <strong><${Words} text=${question.by} /></strong>` : "";
  const when = html` at ${clock(question.answeredAt, now)}, after ${duration(question.answeredAt - question.askedAt)}`;
  if (answer?.type === "approved") return html`<p class="decision good">approved${who}${when}${answer.arguments ? html`, with edited arguments: <code>${visible(JSON.stringify(answer.arguments))}</code>` : ""}</p>`;
  if (answer?.type === "denied") return html`<p class="decision bad">denied${who}${when}: <${Words} text=${answer.reason ?? ""} /></p>`;
  if (answer?.type === "continued") return html`<p class="decision good">continued${who}${when}</p>`;
  if (!answer) return html`<p class="decision">answered${who}${when}</p>`;
  return html`<p class="decision">answered${who}${when}: <code>${visible(JSON.stringify(answer))}</code></p>`;
}

const WHY = { timeout: "its time was over", cancelled: "the turn was cancelled", nobody: "nobody was there", failed: "the handler failed", expired: "the answer expired" };
