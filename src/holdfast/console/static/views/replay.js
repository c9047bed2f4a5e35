// Steps through the journal of a session: what was known after each event.
import { classes, html, useEffect, useMemo, useState } from "../lib/dom.js";
import { applyItem, emptySession } from "../lib/fold.js";
import { clock, duration, oneLine, visible } from "../lib/format.js";
import { address } from "../lib/routes.js";
import { useKeys } from "../lib/keys.js";
import { Button, Rows } from "../parts/basics.js";
import { Turn } from "../parts/turn.js";

const HEIGHT = 26;
const SPEEDS = [1, 5, 20];

export function Replay({ session, version, at, name }) {
  const records = session.records;
  const last = records.length;
  const [step, setStep] = useState(at);
  const [speed, setSpeed] = useState(0);
  const shown = Math.min(step || last, last);
  const go = (to) => setStep(Math.max(1, Math.min(last, to)));
  useEffect(() => {
    if (!speed || shown >= last) return undefined;
    const gap = records[shown] && records[shown - 1] ? records[shown].event.at - records[shown - 1].event.at : 0.3;
    const timer = setTimeout(() => go(shown + 1), Math.min(2000, Math.max(40, (1000 * gap) / speed)));
    return () => clearTimeout(timer);
  }, [speed, shown, last]);
  useEffect(() => {
    if (!step) return undefined;
    const timer = setTimeout(() => history.replaceState(null, "", address(["runs", name, "replay"], { at: shown })), 200);
    return () => clearTimeout(timer);
  }, [shown]);
  useKeys("Replay", [
    { keys: "j", label: "Next event", run: () => go(shown + 1) },
    { keys: "k", label: "Event before", run: () => go(shown - 1) },
    { keys: "ArrowRight", label: "Next event", run: () => go(shown + 1) },
    { keys: "ArrowLeft", label: "Event before", run: () => go(shown - 1) },
    { keys: "Home", label: "First event", run: () => go(1) },
    { keys: "End", label: "Last event", run: () => go(last) },
    { keys: "p", label: "Play or pause", run: () => setSpeed(speed ? 0 : 5) },
  ], [shown, last, speed]);
  const state = useMemo(() => stateAfter(records, shown), [version, shown]);
  if (!last) return html`<p class="quiet pad">There are no events yet.</p>`;
  const item = records[shown - 1];
  const turns = [...state.turns.values()].sort((a, b) => a.number - b.number).slice(-3);
  return html`<div class="replay">
    <div class="controls">
      <${Button} label="\u2039" aria-label="Event before" onClick=${() => go(shown - 1)} /><${Button} label="\u203a" aria-label="Next event" onClick=${() => go(shown + 1)} />
      <input type="range" min="1" max=${last} value=${shown} aria-label="Event" aria-valuetext=${`event ${shown} of ${last}`} onInput=${(event) => go(Number(event.target.value))} />
      <span class="number">${shown} / ${last}</span>
      ${speed ? html`<${Button} label="Pause" keys="p" onClick=${() => setSpeed(0)} />` : SPEEDS.map((one) => html`<${Button} key=${one} label=${`\u25b8 ${one}\u00d7`} onClick=${() => { if (shown >= last) go(1); setSpeed(one); }} />`)}
    </div>
    <${Rows} rows=${records} height=${HEIGHT} className="events" label="Events" selected=${shown - 1} render=${(one, index) => html`<div key=${index} role="listitem" style=${{ height: `${HEIGHT}px` }} class=${classes("event", index === shown - 1 && "chosen", index >= shown && "later")} onClick=${() => go(index + 1)}>
      <span class="number">${one.sequence}</span><span class="type">${visible(one.event.type)}</span><code class="quiet">${visible(one.event.key)}</code><span class="quiet end">${index ? `+${duration(Math.max(0, one.event.at - records[index - 1].event.at))}` : ""}</span></div>`} />
    <div class="moment">
      <section aria-label="The event"><h2>${visible(item.event.type)} <span class="quiet">${clock(item.event.at, Date.now() / 1000)}, position ${visible(item.position)}</span></h2>
        <pre class="code" tabindex="0" aria-label="The event as JSON"><code>${visible(JSON.stringify(item.event, null, 2))}</code></pre></section>
      <section aria-label="What was known then"><h2>What was known then</h2>
        ${turns.map((turn) => html`<${Turn} key=${turn.number} turn=${turn} isLast=${false} status="open" open=${[]} now=${item.event.at} acts=${null} />`)}</section>
    </div>
  </div>`;
}

function stateAfter(records, number) {
  const state = emptySession();
  for (let at = 0; at < number; at += 1) applyItem(state, records[at]);
  state.last = { turn: 0, status: "open", questions: [] };
  return state;
}
