// The approval inbox: everything that waits for a person, the earliest deadline first.
import { classes, html, useNow, useSignal, useState } from "../lib/dom.js";
import { address } from "../lib/routes.js";
import { useKeys } from "../lib/keys.js";
import { plural, visible } from "../lib/format.js";
import { titleOf } from "../lib/runs.js";
import { hasMoreQuestions, questions } from "../lib/store.js";
import { Ago, Words } from "../parts/basics.js";
import { Deadline, QuestionForm, QuestionText } from "../parts/question.js";

const FIRST = 50;

/** The order of the inbox: what ends first, then what waits longest. */
export function byUrgency(a, b) {
  return (a.until ?? Infinity) - (b.until ?? Infinity) || a.asked_at - b.asked_at;
}

export function Approvals({ parts }) {
  const all = [...useSignal(questions)].sort(byUrgency);
  const hasMore = useSignal(hasMoreQuestions);
  const now = useNow(5);
  const [limit, setLimit] = useState(FIRST);
  const [session, key] = parts;
  const linked = session ? all.findIndex((one) => one.session === session && (!key || one.key === key)) : -1;
  const [selected, setSelected] = useState(-1);
  const at = Math.max(0, Math.min(selected >= 0 ? selected : linked, all.length - 1));
  const move = (step) => {
    const next = Math.max(0, Math.min(all.length - 1, at + step));
    setSelected(next);
    document.getElementById(`question-${next}`)?.scrollIntoView({ block: "nearest" });
  };
  useKeys("Approvals", [
    { keys: "j", label: "Next question", run: () => move(1) },
    { keys: "k", label: "Question before", run: () => move(-1) },
    { keys: "o", label: "Open the run", run: () => { if (all[at]) location.hash = address(["runs", all[at].session]); } },
  ], [at, all.length]);
  return html`<section class="approvals page" aria-label="Approvals">
    <h1>Approvals</h1>
    <p class="quiet" aria-live="polite">${all.length ? `${plural(all.length, "question")} for you. The run continues by itself after the answer.${hasMore ? " More are open than these, which wait longest." : ""}` : ""}</p>
    ${session && linked < 0 && selected < 0 ? html`<p class="note">That question is no longer open. <a href=${address(["runs", session])}>Read its run</a></p>` : null}
    ${all.slice(0, limit).map((one, index) => html`<article key=${`${one.session} ${one.key} ${one.binding}`} id=${`question-${index}`} class=${classes("card", index === at && "selected")} onFocusIn=${() => setSelected(index)} onClick=${() => setSelected(index)} aria-label=${`Question of ${visible(titleOf(one))}`}>
      <header><a href=${address(["runs", one.session])}><${Words} text=${titleOf(one)} /></a>
        <span class="quiet">${visible(one.agent)}, asked <${Ago} at=${one.asked_at} now=${now} after=" ago" /></span>
        <a class="quiet end" href=${address(["approvals", one.session, one.key])} aria-label="Link to this question">link</a></header>
      <${QuestionText} question=${one} /><${Deadline} until=${one.until ?? null} />
      <${QuestionForm} question=${one} isActive=${index === at} />
    </article>`)}
    ${all.length > limit ? html`<button type="button" class="button" onClick=${() => setLimit(limit + FIRST)}>Show more of ${all.length - limit}</button>` : null}
    ${!all.length ? html`<div class="empty"><h2>Nothing waits for you</h2><p class="quiet">When a tool needs an approval, it appears here by itself.</p></div>` : null}
  </section>`;
}
