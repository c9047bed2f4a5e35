// The queue: how much waits and how long, what limits it, what failed, the schedules, and the workers.
import { classes, html, useNow, useState } from "../lib/dom.js";
import { pathOf, post } from "../lib/api.js";
import { address } from "../lib/routes.js";
import { useKeys } from "../lib/keys.js";
import { clock, count, duration, plural, visible } from "../lib/format.js";
import { QUEUED } from "../lib/runs.js";
import { changed } from "../lib/changes.js";
import { useReading } from "../lib/reading.js";
import { attempt, may, refresh, tell } from "../lib/store.js";
import { Ago, Button, Fold } from "../parts/basics.js";

const WORDS = {
  ready: "begins as soon as there is room", blocked: "an earlier turn of its session has not ended", scheduled: "its time has not come",
  admitted: "a worker drives it, or is about to", waiting: "waits for an answer", postponed: "is tried again later", failed: "a dead letter", parked: "a dead letter: workers died of it",
};

// No stream tells what commands change, or that a worker lives.
const QUEUE = { on: [changed.queue, changed.sessions], every: 30 };
const WORKERS = { on: [changed.queue, changed.sessions], every: 10 };

export function Queue() {
  const queue = useReading("queue", {}, QUEUE);
  const failed = useReading("queue/entries", { state: "failed", limit: 50 }, QUEUE);
  const parked = useReading("queue/entries", { state: "parked", limit: 50 }, QUEUE);
  const entries = useReading("queue/entries", { limit: 200 }, QUEUE);
  const now = useNow(1);
  const again = () => { queue.again(); failed.again(); parked.again(); entries.again(); refresh(); };
  if (queue.error && !queue.value) return html`<section class="empty"><h1>The queue cannot be read</h1><p>${visible(queue.error)}</p></section>`;
  const letters = [...(failed.value?.entries ?? []), ...(parked.value?.entries ?? [])].sort((one, other) => other.entry - one.entry);
  const waiting = (entries.value?.entries ?? []).filter((one) => QUEUED.includes(one.state)).reverse();
  return html`<section class="page queue" aria-label="Queue">
    <${Head} queue=${queue.value} onDone=${again} />
    <${Limits} queue=${queue.value} />
    <h2>How much waits</h2>
    <${Depths} depths=${queue.value?.depths ?? []} />
    <${DeadLetters} entries=${letters} now=${now} onDone=${again} />
    <h2>Next</h2>
    <${Waiting} entries=${waiting} now=${now} onDone=${again} />
    <${Schedules} now=${now} onDone=${again} />
    ${may("admin") ? html`<${Workers} now=${now} />` : null}
  </section>`;
}

/** Do an act of the queue, say what was done, and read again. */
async function perform(path, done, again) {
  if (await attempt(() => post(path))) tell(done, "good");
  again();
}

function Head({ queue, onDone }) {
  const limits = queue?.limits ?? {};
  const act = (word, done) => () => perform(`queue/${word}`, done, onDone);
  const state = limits.is_paused ? "Paused: no turn begins." : limits.is_draining ? "Draining: no turn is accepted." : "";
  return html`<header class="page-head"><h1>Queue</h1>
    ${state ? html`<span class="state tone-warn" role="status"><span class="sign" aria-hidden="true">\u2016</span>${state}</span>` : null}
    ${may("admin") ? html`<span class="acts">
      ${limits.is_paused || limits.is_draining ? html`<${Button} label="Resume" tone="primary" onClick=${act("resume", "Turns begin and are accepted again.")} />` : null}
      ${limits.is_paused ? null : html`<${Button} label="Pause" onClick=${act("pause", "No more turns begin. Those in progress go on.")} />`}
      ${limits.is_draining ? null : html`<${Button} label="Drain" onClick=${act("drain", "No more turns are accepted. Queued ones are done.")} />`}
    </span>` : null}
  </header>`;
}

function Limits({ queue }) {
  if (!queue) return html`<p class="quiet">Loading</p>`;
  const { limits } = queue;
  const quiet = queue.workers ? "" : "No worker is alive, so nothing begins.";
  return html`${quiet ? html`<p class="note warn">${quiet}</p>` : null}
    <div class="cards">
      <${Figure} name="running" value=${queue.running} most=${limits.running} />
      <${Figure} name="queued" value=${queue.queued} most=${limits.queued} />
      <${Figure} name="turns today" value=${queue.turns_today} most=${limits.turns_per_day} isCounted=${limits.turns_per_day !== null || limits.tokens_per_day !== null} />
      <${Figure} name="tokens today" value=${queue.tokens_today} most=${limits.tokens_per_day} isCounted=${limits.tokens_per_day !== null} />
      <${Figure} name="workers" value=${queue.workers} most=${null} isLimited=${false} />
    </div>`;
}

/** A number against its limit. */
function Figure({ name, value, most, isCounted = true, isLimited = true }) {
  const isFull = most !== null && most !== undefined && value >= most;
  const has = most !== null && most !== undefined;
  return html`<article class="card figure"><span class="quiet">${name}</span>
    <strong class=${isFull ? "bad" : ""}>${isCounted ? count(value) : "\u2013"}</strong>
    ${has ? html`<meter min="0" max=${Math.max(most, 1)} value=${Math.min(value, most)} aria-label=${`${name}: ${value} of ${most}`}></meter><span class="quiet">of ${count(most)}${isFull ? ", which is all" : ""}</span>`
      : html`<span class="quiet">${isLimited ? "no limit" : "alive"}</span>`}
  </article>`;
}

function Depths({ depths }) {
  if (!depths.length) return html`<p class="quiet">Nothing is queued, and nothing runs.</p>`;
  return html`<div class="table" tabindex="0" role="region" aria-label="How much waits"><table><thead><tr><th scope="col">state</th><th scope="col">turns</th><th scope="col">the oldest</th><th scope="col"></th></tr></thead>
    <tbody>${depths.map((one) => html`<tr key=${one.state}><td>${one.state}</td><td>${one.count}</td><td>${duration(one.oldest_seconds)}</td><td class="quiet">${WORDS[one.state] ?? ""}</td></tr>`)}</tbody></table></div>`;
}

function DeadLetters({ entries, now, onDone }) {
  const [selected, setSelected] = useState(0);
  const at = Math.min(selected, entries.length - 1);
  const one = entries[at];
  const move = (step) => {
    const next = Math.max(0, Math.min(entries.length - 1, at + step));
    setSelected(next);
    document.getElementById(`dead-${next}`)?.scrollIntoView({ block: "nearest" });
  };
  const retry = (entry) => perform(`queue/entries/${entry.entry}/retry`, "It is queued again.", onDone);
  const drop = (entry) => perform(`queue/entries/${entry.entry}/drop`, "It was dropped.", onDone);
  useKeys("Dead letters", [
    { keys: "j", label: "Next dead letter", run: () => move(1) },
    { keys: "k", label: "Dead letter before", run: () => move(-1) },
    { keys: "o", label: "Open the run", run: () => { if (one) location.hash = address(["runs", one.session]); } },
    may("run") && { keys: "r", label: "Retry it", run: () => { if (one) retry(one); } },
    may("run") && { keys: "x", label: "Drop it", run: () => { if (one) drop(one); } },
  ], [at, entries.map((entry) => entry.entry).join()]);
  if (!entries.length) return null;
  return html`<h2>${plural(entries.length, "dead letter")}</h2>
    ${entries.map((entry, index) => html`<article key=${entry.entry} id=${`dead-${index}`} class=${classes("card", index === at && "selected")} onFocusIn=${() => setSelected(index)} aria-label=${`Dead letter ${entry.entry}`}>
      <header><a href=${address(["runs", entry.session])}>${visible(entry.session)}</a><span class="quiet">${visible(entry.agent)}, message ${entry.entry}, ${entry.state} <${Ago} at=${entry.changed_at} now=${now} after=" ago" />${entry.deliveries > 1 ? `, begun ${entry.deliveries} times` : ""}</span></header>
      <p class="failure"><bdi dir="auto">${visible(entry.error || "It gave no reason.")}</bdi></p>
      ${may("run") ? html`<p class="acts"><${Button} label="Retry" tone="primary" keys=${index === at ? "r" : ""} onClick=${() => retry(entry)} /><${Button} label="Drop" keys=${index === at ? "x" : ""} onClick=${() => drop(entry)} /></p>` : null}
    </article>`)}`;
}

function Waiting({ entries, now, onDone }) {
  if (!entries.length) return html`<p class="quiet">No message waits for its begin.</p>`;
  const cancel = (one) => perform(`queue/entries/${one.entry}/cancel`, "The message was taken out of the queue.", onDone);
  return html`<ul class="plainlist waits" aria-label="Messages that wait">${entries.slice(0, 50).map((one) => html`<li key=${one.entry}><a href=${address(["runs", one.session])}>${visible(one.session)}</a>
      <span class="quiet" title=${WORDS[one.state]}>message ${one.entry} for ${visible(one.agent)}, ${one.state}${one.state === "scheduled" && one.due_at > now ? ` for ${clock(one.due_at, now)}` : ""}, waits <${Ago} at=${one.created_at} now=${now} /></span>
      ${may("run") ? html`<${Button} tone="plain" label="Take out" aria-label=${`Take out message ${one.entry}`} onClick=${() => cancel(one)} />` : null}</li>`)}</ul>
    ${entries.length > 50 ? html`<p class="quiet">And ${entries.length - 50} more.</p>` : null}`;
}

function Schedules({ now, onDone }) {
  const { value, error, again } = useReading("schedules", {}, QUEUE);
  const act = (one, word, done) => () => perform(`schedules/${pathOf(one.name)}/${word}`, done, () => { again(); onDone(); });
  return html`<h2>Schedules</h2>
    ${error ? html`<p class="quiet">${visible(error)}</p>` : null}
    ${value && !value.length ? html`<p class="quiet">There are no schedules. <code>holdfast schedules add</code> makes one.</p>` : null}
    <div class="cards">${(value ?? []).map((one) => html`<article key=${one.name} class="card" aria-label=${`Schedule ${visible(one.name)}`}>
      <header><strong>${visible(one.name)}</strong> ${one.is_paused ? html`<span class="state tone-warn"><span class="sign" aria-hidden="true">\u2016</span>Paused</span>` : null}</header>
      <dl class="facts">
        <div><dt>agent</dt><dd>${visible(one.agent)}</dd></div>
        <div><dt>when</dt><dd>${one.cron ? html`<code>${visible(one.cron)}</code> ${visible(one.zone)}` : `every ${duration(one.every)}`}</dd></div>
        <div><dt>next</dt><dd>${one.is_paused ? "\u2013" : one.next_tick === null ? "never again" : clock(one.next_tick, now)}</dd></div>
        <div><dt>overlap</dt><dd>${one.overlap}; missed ones: ${one.catch_up}</dd></div>
      </dl>
      ${may("run") ? html`<p class="acts">${one.is_paused ? html`<${Button} label="Resume" onClick=${act(one, "resume", "The schedule goes on.")} />` : html`<${Button} label="Pause" onClick=${act(one, "pause", "The schedule is paused.")} />`}
        <${Button} label="Run now" onClick=${act(one, "run", "A turn was queued.")} /></p>` : null}
      <${Fold} label="History">${() => html`<${History} name=${one.name} now=${now} />`}<//>
    </article>`)}</div>`;
}

function History({ name, now }) {
  const { value, error } = useReading(`schedules/${pathOf(name)}/history`, { limit: 20 }, QUEUE);
  if (error) return html`<p class="quiet">${visible(error)}</p>`;
  if (!value) return html`<p class="quiet">Loading</p>`;
  if (!value.length) return html`<p class="quiet">It has not run yet.</p>`;
  return html`<ul class="plainlist">${value.map((one, at) => html`<li key=${at}>${clock(one.tick, now)}: ${one.outcome}${one.missed ? ` (${one.missed})` : ""}${one.state ? html`, <span class="quiet">message ${one.entry} is ${one.state}</span>` : ""}</li>`)}</ul>`;
}

function Workers({ now }) {
  const { value, error } = useReading("workers", {}, WORKERS);
  return html`<h2>Workers</h2>
    ${error ? html`<p class="quiet">${visible(error)}</p>` : null}
    ${value && !value.length ? html`<p class="quiet">No worker was seen in the last hour. <code>holdfast worker</code> starts one.</p>` : null}
    <div class="cards">${(value ?? []).map((one) => html`<article key=${one.worker} class="card" aria-label=${`Worker ${one.worker}`}>
      <header><strong>${visible(one.host)}</strong> <${Alive} worker=${one} /></header>
      <dl class="facts">
        <div><dt>worker</dt><dd><code>${visible(one.worker.slice(0, 12))}</code> <span class="quiet">process ${one.process}, ${visible(one.engine)}</span></dd></div>
        <div><dt>heartbeat</dt><dd><${Ago} at=${one.seen_at} now=${now} after=" ago" /></dd></div>
        <div><dt>drives</dt><dd>${one.driving} of ${one.slots}</dd></div>
        <div><dt>agents</dt><dd>${one.agents.map(visible).join(", ")}</dd></div>
      </dl>
      ${one.entries.length ? html`<ul class="plainlist">${one.entries.map((entry) => html`<li key=${entry.entry}><a href=${address(["runs", entry.session])}>${visible(entry.session)}</a> <span class="quiet">${visible(entry.agent)}, <${Ago} at=${entry.changed_at} now=${now} /></span></li>`)}</ul>` : null}
    </article>`)}</div>`;
}

function Alive({ worker }) {
  const [tone, word] = worker.is_stopping ? ["warn", "stopping"] : worker.is_alive ? ["good", "alive"] : ["bad", "gone"];
  return html`<span class=${`state tone-${tone}`}><span class="sign" aria-hidden="true">\u25cf</span>${word}</span>`;
}
