// Two sessions side by side, turn by turn, with the words that differ.
import { classes, html, useMemo, useSignal, useState } from "../lib/dom.js";
import { alignTurns, diffWords, stepsOf } from "../lib/diff.js";
import { textOf } from "../lib/fold.js";
import { briefArguments, duration, oneLine, plural, visible } from "../lib/format.js";
import { address } from "../lib/routes.js";
import { stateOfTurn } from "../lib/session_store.js";
import { runs } from "../lib/store.js";
import { State, Tokens, Words } from "../parts/basics.js";
import { useFollowed } from "./session.js";

export function Compare({ names }) {
  if (!names[1]) return html`<${Choose} first=${names[0]} />`;
  return html`<${Both} key=${names.join("\n")} left=${names[0]} right=${names[1]} />`;
}

function Choose({ first }) {
  const known = useSignal(runs).entries.filter((one) => one.session !== first);
  const [text, setText] = useState("");
  const wanted = text.toLowerCase();
  const shown = known.filter((one) => `${one.title} ${one.session}`.toLowerCase().includes(wanted)).slice(0, 60);
  return html`<section class="page" aria-label="Compare"><h1>Compare with which session?</h1>
    <p class="quiet">The first one is <code>${visible(first ?? "")}</code>.</p>
    <input type="search" aria-label="Find a session" placeholder="Title or name" value=${text} onInput=${(event) => setText(event.target.value)} autofocus />
    <ul class="plainlist">${shown.map((one) => html`<li key=${one.session}><a href=${address(["compare", first, one.session])}><${Words} text=${oneLine(one.title || one.session)} /></a> <span class="quiet">${visible(one.session)}</span></li>`)}</ul>
  </section>`;
}

function Both({ left, right }) {
  const a = useFollowed(left);
  const b = useFollowed(right);
  const [all, setAll] = useState(false);
  const rows = useMemo(() => alignTurns(a.followed.state, b.followed.state), [a.version, b.version]);
  const same = rows.findIndex((one) => !one.same);
  const hidden = all ? 0 : same < 0 ? Math.max(0, rows.length - 1) : same;
  for (const one of [a, b]) {
    if (one.connection instanceof Error) return html`<section class="page"><h1>A session cannot be read</h1><p>${visible(one.followed.name)}: ${visible(one.connection.message)}</p></section>`;
  }
  return html`<section class="compare" aria-label="Compare">
    <header class="pair"><${Heading} name=${left} /><${Heading} name=${right} /></header>
    ${hidden ? html`<button type="button" class="button plain" onClick=${() => setAll(true)}>${plural(hidden, "equal turn")} at the beginning: show</button>` : null}
    ${rows.slice(hidden).map((row) => html`<${Pair} key=${row.number} row=${row} a=${a.followed.state} b=${b.followed.state} />`)}
  </section>`;
}

/** The title of a session, and its name if that is another text. */
function Heading({ name }) {
  const title = useSignal(runs).entries.find((one) => one.session === name)?.title || name;
  return html`<h1><a href=${address(["runs", name])}><${Words} text=${oneLine(title)} /></a> ${title === name ? null : html`<code class="quiet">${visible(name)}</code>`}</h1>`;
}

function Pair({ row, a, b }) {
  const message = diffWords(textOf(row.left?.message?.parts), textOf(row.right?.message?.parts));
  const text = diffWords(row.left?.text ?? "", row.right?.text ?? "");
  return html`<article class=${classes("pair", row.same && "same")} aria-label=${`Turn ${row.number}`}>
    <${Side} turn=${row.left} session=${a} message=${message.left} text=${text.left} other=${row.right} tone="old" />
    <${Side} turn=${row.right} session=${b} message=${message.right} text=${text.right} other=${row.left} tone="new" />
  </article>`;
}

function Side({ turn, session, message, text, other, tone }) {
  if (!turn) return html`<div class="side none"><p class="quiet">no such turn</p></div>`;
  const steps = stepsOf(turn);
  const others = other ? stepsOf(other) : [];
  return html`<div class="side">
    <header><span class="number">turn ${turn.number}</span><${State} name=${stateOfTurn(session, turn)} />
      <span class="quiet">${turn.closedAt ? duration(turn.closedAt - turn.openedAt) : ""}</span><${Tokens} usage=${turn.usage} lost=${turn.lost} /></header>
    <p class="said you" dir="auto">${showPieces(message, tone)}</p>
    ${steps.map((one, at) => html`<p key=${at} class=${classes("callline", JSON.stringify(one) !== JSON.stringify(others[at]) && `diff-${tone}`)}><code class="tool">${visible(one.name)}</code> <code class="quiet">${briefArguments(one.arguments)}</code> ${one.result ? html`<span class="quiet">\u2192 ${oneLine(one.result, 100)}</span>` : null}</p>`)}
    <p class="said" dir="auto">${showPieces(text, tone)}</p>
    ${turn.error ? html`<p class="failure"><${Words} text=${turn.error.safe} /></p>` : null}
  </div>`;
}

function showPieces(pieces, tone) {
  return pieces.map((one, at) => one.same ? html`<span key=${at}>${visible(one.text)}</span>` : html`<mark key=${at} class=${`diff-${tone}`}>${visible(one.text)}</mark>`);
}
