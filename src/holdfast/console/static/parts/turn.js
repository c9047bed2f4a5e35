// A turn as a conversation: the message, what the model wrote and did, and what went wrong on the way.
import { classes, html, useState } from "../lib/dom.js";
import { briefArguments, clock, duration, oneLine, plural, prettyJson, visible, waitText } from "../lib/format.js";
import { textOf } from "../lib/fold.js";
import { footnotes } from "../lib/footnotes.js";
import { traceOf } from "../lib/runs.js";
import { Button, Fold, State, Tokens, Words } from "./basics.js";
import { Markdown } from "./markdown.js";
import { Decision, Deadline, QuestionForm, QuestionText } from "./question.js";

const FIRST_STEPS = 30;

/** A turn. `open` are the open questions of the session; `acts` what can be done with it. */
export function Turn({ turn, isLast, status, open, acts, now }) {
  const [all, setAll] = useState(false);
  const hidden = all ? 0 : Math.max(0, turn.iterations.length - FIRST_STEPS);
  const ended = turn.closedAt > 0;
  const shown = isLast && !ended ? status : turn.status;
  return html`<article class=${classes("turn", !turn.counts && "rewound")} id=${`turn-${turn.number}`} aria-label=${`Turn ${turn.number}`}>
    <header><span class="number">turn ${turn.number}</span><${State} name=${turn.inDoubt.length && ended ? "in_doubt" : shown} />
      ${turn.counts ? null : html`<span class="quiet">rewound: it does not count</span>`}
      <span class="quiet">${turn.openedAt ? clock(turn.openedAt, now) : ""}${ended ? `, ${duration(turn.closedAt - turn.openedAt)}` : ""}</span>
      <${Tokens} usage=${turn.usage} lost=${turn.lost} />
      ${turn.by ? html`<span class="quiet">by <${Words} text=${turn.by} /></span>` : null}
      <${Trace} trace=${traceOf(turn)} />
      ${acts ? html`<span class="acts">${acts(turn)}</span>` : null}
    </header>
    ${turn.message ? html`<${UserMessage} message=${turn.message} />` : null}
    ${hidden ? html`<${Button} tone="plain" label=${`Show ${plural(hidden, "earlier step")}`} onClick=${() => setAll(true)} />` : null}
    ${turn.iterations.slice(hidden).map((one) => html`<${Step} key=${one.index} step=${one} turn=${turn} isLast=${isLast && one.index === turn.iterations.length - 1} status=${status} open=${open} now=${now} />`)}
    ${turn.questions.filter((one) => !/\.tool\.\d+\./.test(one.key)).map((one) => html`<${Asked} key=${one.key} question=${one} open=${open} now=${now} />`)}
    ${turn.marks.filter((mark) => mark.kind !== "resumed").map((mark, at) => html`<${Mark} key=${at} mark=${mark} />`)}
    ${turn.error && ended && !isTold(turn) ? html`<${Failure} error=${turn.error} />` : null}
  </article>`;
}

function Trace({ trace }) {
  if (!trace) return null;
  return html`<a class="quiet" href=${trace.url} target="_blank" rel="noopener noreferrer nofollow" title=${`The trace of this turn, at ${visible(trace.host)}`}>trace</a>`;
}

/** Whether the last step shows the error that ended the turn. */
function isTold(turn) {
  return turn.iterations.at(-1)?.call?.error?.safe === turn.error.safe;
}

function UserMessage({ message }) {
  return html`<div class="message user">
    ${(message.parts ?? []).map((part, at) => part.type === "text" ? html`<${Words} as="p" key=${at} class="said" text=${part.text} />` : html`<${MediaPart} key=${at} part=${part} />`)}
  </div>`;
}

const PICTURES = /^image\/(png|jpeg|gif|webp|avif)$/;

function MediaPart({ part }) {
  if (part.type !== "media") return html`<p class="quiet">${visible(part.type)}</p>`;
  if (part.data && PICTURES.test(part.media_type)) {
    const source = `data:${part.media_type};base64,${part.data}`;
    return html`<img class="picture" src=${source} alt=${part.name ? visible(part.name) : "picture"} />`;
  }
  return html`<p class="quiet">${visible(part.media_type)} ${visible(part.name ?? part.url ?? "")}</p>`;
}

function Step({ step, turn, isLast, status, open, now }) {
  const isRunning = isLast && status === "running";
  return html`<section class="step">
    ${step.call ? html`<${Call} call=${step.call} isRunning=${isRunning && step.call.endedAt === null} />` : null}
    ${step.tools.filter(Boolean).map((tool) => html`<${Tool} key=${tool.key} tool=${tool} open=${open} now=${now} isDriven=${status === "running"} />`)}
    ${step.output && !step.output.parsed_by && (step.output.problems ?? []).length ? html`<p class="note warn">The output does not fit its type: ${oneLine((step.output.problems ?? []).map((one) => one.message ?? JSON.stringify(one)).join("; "), 300)}. The model is asked again.</p>` : null}
    ${isRunning && step.call?.endedAt === null && !step.call.text.text && !turn.closedAt ? html`<p class="thinking" aria-label="The model works">${step.call.pending ? "" : html`<span></span><span></span><span></span>`}</p>` : null}
  </section>`;
}

function Call({ call, isRunning }) {
  const reasoning = call.reasoning.text || (call.reply?.parts ?? []).filter((part) => part.type === "reasoning").map((part) => part.text ?? "").join("\n");
  return html`<div class="message model">
    <${Trouble} effect=${call} />
    ${call.withdrawn.map((one, at) => html`<${Fold} key=${at} class="withdrawn" label=${html`<span>text taken back: ${visible(one.reason)}</span>`}>${() => html`<${Words} as="p" text=${one.text} />`}<//>`)}
    ${reasoning.trim() ? html`<${Fold} class="reasoning" label="reasoning">${() => html`<${Words} as="p" text=${reasoning} />`}<//>` : null}
    ${call.hosted.map((one, at) => html`<${Hosted} key=${at} call=${one} isRunning=${isRunning} />`)}
    ${call.text.text ? html`<div class=${classes("said", isRunning && "growing")}><${Markdown} text=${call.text.text} /></div>` : null}
    ${call.citations.length ? html`<${Sources} text=${call.text.text} citations=${call.citations} />` : null}
    ${call.drafts.filter(Boolean).map((draft, at) => html`<p key=${at} class="note">writes a call of <code class="tool">${visible(draft.name)}</code> <code class="quiet">${oneLine(draft.arguments, 100)}</code></p>`)}
    ${call.error ? html`<${Failure} error=${call.error} />` : null}
  </div>`;
}

/** A call of a tool that the provider runs. */
function Hosted({ call, isRunning }) {
  const [tone, word] = call.is_error ? ["bad", "error"] : call.finished ? ["good", "done"] : isRunning ? ["live", "runs"] : ["calm", "no result"];
  return html`<div class=${`call tone-${tone}`}>
    <${Fold} label=${html`<span class="line"><code class="tool">${visible(call.name ?? "")}</code>
        <code class="quiet brief">${briefArguments(call.arguments || "{}")}</code><span class="end"><span class="quiet">by the provider</span> <span class="word">${word}</span></span></span>`}>
      ${() => html`<div class="detail"><pre class="code" tabindex="0" aria-label="arguments"><code>${visible(prettyJson(call.arguments || "{}"))}</code></pre>
        ${call.result ? html`<pre class=${classes("code", call.is_error && "bad")} tabindex="0" aria-label="result"><code>${visible(call.result)}</code></pre>` : null}</div>`}
    <//>
  </div>`;
}

/** The sources that a text cites, as footnotes with the words that rest on them. */
function Sources({ text, citations }) {
  return html`<ol class="sources" aria-label="Sources">
    ${footnotes(text, citations).map((one) => html`<li key=${one.url + one.title}>
      ${one.isLink ? html`<a href=${one.url} target="_blank" rel="noopener noreferrer nofollow"><${Words} text=${one.title || one.url} /></a>` : html`<${Words} text=${one.title || one.url} />`}
      ${one.cited.length ? html`<span class="quiet">: <${Words} text=${one.cited.map((words) => `\u201c${words}\u201d`).join(", ")} /></span>` : null}</li>`)}
  </ol>`;
}

/** Attempts that failed, and waits with their cause. */
export function Trouble({ effect }) {
  const failed = effect.attempts.filter((one) => one.error);
  const unseen = effect.count - 1 - failed.length - (effect.tried ?? []).length;
  if (!failed.length && unseen <= 0 && !(effect.tried ?? []).length && !effect.downtime) return null;
  return html`<ul class="trouble">
    ${effect.downtime > 0.05 ? html`<li class="gap">nobody drove it for ${duration(effect.downtime)}: the process had ended</li>` : null}
    ${(effect.tried ?? []).map((one, at) => html`<li key=${`t${at}`}><span class="attempt">${visible(one.target)}</span> gave up after ${plural(one.attempts, "attempt")}: <${Words} text=${one.error.safe} /></li>`)}
    ${failed.map((one, at) => html`<li key=${at}><span class="attempt">attempt ${one.number}</span> <${Words} text=${one.error.safe} />${one.wait ? html`<span class="wait">; ${waitText(one.wait)}</span>` : null}</li>`)}
    ${unseen > 0 ? html`<li>${plural(unseen, "attempt")} failed before</li>` : null}
  </ul>`;
}

const TOOL_STATES = {
  planned: ["calm", "planned"], running: ["live", "runs"], waiting: ["ask", "waits for you"],
  done: ["good", "done"], error: ["bad", "error"], in_doubt: ["doubt", "in doubt"],
};

function Tool({ tool, open, now, isDriven }) {
  const [tone, word] = tool.state === "running" && !isDriven ? ["doubt", "interrupted"] : TOOL_STATES[tool.state];
  const result = textOf(tool.result?.content);
  const seconds = tool.endedAt && tool.startedAt ? duration(tool.endedAt - tool.startedAt) : "";
  return html`<div class=${`call tone-${tone}`}>
    <${Fold} open=${tool.state === "in_doubt"} label=${html`<span class="line"><code class="tool">${visible(tool.name)}</code>
        <code class="quiet brief">${briefArguments(tool.arguments)}</code><span class="end"><span class="word">${word}</span> <span class="quiet">${seconds}</span></span></span>`}>
      ${() => html`<div class="detail"><pre class="code" tabindex="0" aria-label="arguments"><code>${visible(prettyJson(tool.arguments))}</code></pre>
        ${tool.result ? html`<pre class=${classes("code", tool.result.is_error && "bad")} tabindex="0" aria-label="result"><code>${visible(prettyJson(result))}</code></pre>` : null}
        ${tool.error && tool.error.safe !== result ? html`<${Failure} error=${tool.error} />` : null}</div>`}
    <//>
    <${Trouble} effect=${tool} />
    ${tool.nested.map((one) => html`<p key=${one.name} class="note"><code class="tool">${visible(one.name)}</code> <span class="quiet">${oneLine(one.text ?? one.latest ?? "", 160)}</span></p>`)}
    ${tool.questions.map((one) => html`<${Asked} key=${one.key} question=${one} open=${open} now=${now} />`)}
  </div>`;
}

function Asked({ question, open, now }) {
  const ready = open.find((one) => one.key === question.key);
  if (question.answeredAt !== null) return html`<div class="asked ended"><${Decision} question=${question} now=${now} /></div>`;
  return html`<div class="asked"><${QuestionText} question=${ready ?? question} />
    <${Deadline} until=${question.until} />
    ${ready ? html`<${QuestionForm} question=${ready} isActive=${open[0]?.key === ready.key} />` : null}</div>`;
}

const INTERRUPTIONS = { deadline: "the time limit was reached", imported: "it was open when the session was imported" };

function Mark({ mark }) {
  const by = mark.by ? ` by ${visible(mark.by)}` : "";
  switch (mark.kind) {
    case "extended": return html`<p class="note">the limit was extended by ${plural(mark.iterations, "iteration")}</p>`;
    case "withheld": return html`<p class="note warn">the provider refused a request, so the new results of ${visible(mark.tools.join(", "))} are withheld</p>`;
    case "interrupted": return html`<p class="note warn">${mark.reason === "parked" ? html`parked, begun ${mark.deliveries} times: <${Words} text=${mark.why} />` : INTERRUPTIONS[mark.reason] ?? `cancelled${by}`}</p>`;
    default: return html`<div class="note warn">stopped: <${Words} text=${mark.reason} />${mark.text ? html`<${Markdown} text=${mark.text} />` : null}</div>`;
  }
}

/** An error in words, with what is known about it. */
export function Failure({ error }) {
  const facts = [error.category, error.status ? `status ${error.status}` : "", error.code, error.provider,
    error.landed === "unknown" ? "may have taken effect" : ""].filter(Boolean);
  return html`<div class="failure"><${Words} as="p" text=${error.safe} /><p class="facts">${visible(facts.join(", "))}</p></div>`;
}
