// The timeline of a session: one row for each effect, as long as it took. Rows of the same time ran in parallel.
import { classes, html, useMemo } from "../lib/dom.js";
import { duration, visible, clock } from "../lib/format.js";
import { rowsOfTurn } from "../lib/spans.js";
import { stateOfTurn } from "../lib/session_store.js";
import { Rows, State, Tokens } from "./basics.js";

const HEIGHT = 28;

/** The timeline of all turns that are shown. */
export function Timeline({ session, version, now, entries = [] }) {
  const second = Math.floor(now);
  const rows = useMemo(() => timelineRows(session, now, workersOf(entries)), [session, version, second, entries]);
  return html`<${Rows} rows=${rows} height=${HEIGHT} className="timeline" label="Timeline" render=${showRow} />`;
}

/** The workers that drove turns, by the numbers of the turns. */
function workersOf(entries) {
  return new Map(entries.filter((one) => one.turn && one.worker).map((one) => [one.turn, one.worker]));
}

function timelineRows(session, now, workers) {
  const rows = [];
  for (const turn of [...session.turns.values()].sort((a, b) => a.number - b.number)) {
    const { rows: own, from, to } = rowsOfTurn(turn, now);
    rows.push({ kind: "turn", turn, seconds: to - from, worker: workers.get(turn.number), state: stateOfTurn(session, turn) });
    const length = Math.max(to - from, 0.001);
    for (const one of own) rows.push({ ...one, start: (one.from - from) / length, share: (one.to - one.from) / length });
  }
  return rows;
}

function showRow(row, index) {
  if (row.kind === "turn") {
    return html`<div key=${`t${row.turn.number}`} class="span-turn" role="listitem" style=${{ height: `${HEIGHT}px` }}>
      <strong>turn ${row.turn.number}</strong> <${State} name=${row.state} /> <span class="quiet">${row.turn.openedAt ? clock(row.turn.openedAt, Date.now() / 1000) : ""}</span>
      <span>${duration(row.seconds)}</span> <${Tokens} usage=${row.turn.usage} lost=${row.turn.lost} />${row.worker ? html` <span class="quiet" title=${`driven by the worker ${visible(row.worker)}`}>worker <code>${visible(row.worker.slice(0, 8))}</code></span>` : null}</div>`;
  }
  const left = `${(100 * Math.min(row.start, 0.995)).toFixed(2)}%`;
  const width = `max(3px, ${(100 * Math.min(row.share, 1 - row.start)).toFixed(2)}%)`;
  const seconds = row.isPoint ? "" : duration(row.to - row.from);
  return html`<div key=${row.key ?? index} class=${classes("span", `kind-${row.kind}`)} role="listitem" style=${{ height: `${HEIGHT}px` }} title=${`${visible(row.label)}: ${visible(row.detail)}`}>
    <span class="name" style=${{ paddingLeft: `${row.depth * 14}px` }}><b>${visible(row.label)}</b>${row.isPoint ? null : html` <span class="quiet">${row.detail}</span>`}</span>
    <span class="track">${row.isPoint ? html`<span class="text">${row.detail}</span>` : html`<span class=${`bar tone-${row.tone}`} style=${{ left, width }}></span>`}</span>
    <span class="seconds">${seconds}</span><span class="used">${row.tokens}</span>
  </div>`;
}
