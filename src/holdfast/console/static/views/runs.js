// The list of runs: by state, agent and text, newest first, live.
import { classes, html, useEffect, useNow, useRef, useSignal, useState } from "../lib/dom.js";
import { address } from "../lib/routes.js";
import { useKeys } from "../lib/keys.js";
import { STATES, stateOf, titleOf } from "../lib/runs.js";
import { money, oneLine, plural, visible } from "../lib/format.js";
import { agents, filter, hasCosts, may, questions, readMore, runs, setFilter, shownRuns } from "../lib/store.js";
import { Ago, Rows, State, Words } from "../parts/basics.js";

const HEIGHT = 52;
const BRIEF = { waiting: "Waiting", limit: "Limit" };
const CHOICES = ["", "running", "queued", "waiting", "in_doubt", "open", "failed", "completed", "limit", "cancelled"];

export function RunList({ chosen }) {
  const list = useSignal(shownRuns);
  const page = useSignal(runs);
  const wanted = useSignal(filter);
  const now = useNow(5);
  const [selected, setSelected] = useState(-1);
  const search = useRef(null);
  const at = selected >= 0 ? Math.min(selected, list.length - 1) : list.findIndex((one) => one.session === chosen);
  const move = (step) => setSelected(Math.max(0, Math.min(list.length - 1, at + step)));
  const open = () => { if (list[at]) location.hash = address(["runs", list[at].session]); };
  const find = () => {
    const focus = () => search.current?.focus();
    if (search.current?.checkVisibility()) return focus();
    addEventListener("hashchange", () => requestAnimationFrame(focus), { once: true }); // beside a run of a narrow screen
    location.hash = address(["runs"]);
  };
  useEffect(() => setSelected(-1), [wanted]);
  useKeys("Runs", [
    { keys: "/", label: "Search", run: find },
    { keys: "]", label: "Next run", run: () => { move(1); } },
    { keys: "[", label: "Run before", run: () => { move(-1); } },
    { keys: "o", label: "Open the run", run: open },
  ], [at, list]);
  return html`<section class="runs" aria-label="Runs">
    <${Filters} wanted=${wanted} field=${search} />
    <p class="summary" aria-live="polite">${page.loading ? "Loading" : page.error ? visible(page.error) : `${plural(list.length, "run")}${page.next ? " so far" : ""}`}</p>
    <${Rows} rows=${list} height=${HEIGHT} className="runlist" label="Runs" selected=${at} onEnd=${readMore} render=${(run, index) => html`<${Run} key=${run.session} run=${run} now=${now} isChosen=${run.session === chosen} isSelected=${index === at} />`} />
    ${!list.length && page.loaded ? html`<p class="quiet pad">${wanted.q || wanted.state || wanted.agent || wanted.cost ? "No run fits this filter." : "There are no runs yet."} ${may("run") ? html`<a href="#/new">Start a chat</a>` : ""}</p>` : null}
  </section>`;
}

function Filters({ wanted, field }) {
  const known = useSignal(agents);
  const waiting = useSignal(questions).length;
  const priced = useSignal(hasCosts);
  // What is typed is kept here: the list is drawn again while somebody types.
  const [text, setText] = useState(wanted.q);
  const [cost, setCost] = useState(wanted.cost);
  const timer = useRef(0);
  const change = (value) => {
    setText(value);
    clearTimeout(timer.current);
    timer.current = setTimeout(() => setFilter({ q: value.trim() }), 250);
  };
  return html`<div class="filters" role="search">
    <input ref=${field} type="search" disabled=${!may("read")} value=${text} placeholder="Search titles and messages  /" aria-label="Search titles and messages" onInput=${(event) => change(event.target.value)}
      onKeyDown=${(event) => { if (event.key === "Escape") { change(""); event.target.blur(); } }} />
    <select aria-label="Agent" value=${wanted.agent} onChange=${(event) => setFilter({ agent: event.target.value })}>
      <option value="">all agents</option>${known.map((one) => html`<option key=${one.name} value=${one.name}>${visible(one.name)}</option>`)}
    </select>
    ${priced || wanted.cost ? html`<input type="number" class="cost" min="0" step="any" value=${cost} placeholder="cost from" aria-label="Cost of the last turn, at least" onInput=${(event) => setCost(event.target.value)} onChange=${(event) => setFilter({ cost: event.target.value })} />` : null}
    <div class="states" role="group" aria-label="State">${CHOICES.map((name) => html`<button key=${name} type="button" class=${classes("chip", name && `tone-${STATES[name].tone}`)} aria-pressed=${wanted.state === name} onClick=${() => setFilter({ state: wanted.state === name ? "" : name })}>
      ${name ? BRIEF[name] ?? STATES[name].name : "All"}${name === "waiting" && waiting ? html` <b>${waiting}</b>` : null}</button>`)}</div>
  </div>`;
}

function Run({ run, now, isChosen, isSelected }) {
  return html`<div role="listitem" style=${{ height: `${HEIGHT}px` }}><a class=${classes("run", isChosen && "chosen", isSelected && "selected")} href=${address(["runs", run.session])} aria-current=${isChosen ? "page" : null}>
    <span class="line"><span class="title"><${Words} text=${oneLine(titleOf(run), 140)} /></span><${Ago} at=${run.changed_at} now=${now} /></span>
    <span class="line"><${State} name=${stateOf(run)} /><span class="quiet brief">${visible(run.agent)}${run.turns > 1 ? `, ${run.turns} turns` : ""}${run.turn_cost ? html`, cost <span title="cost of the last turn">${money(run.turn_cost)}</span>` : ""}${typeof run.found === "string" ? html` \u2014 <${Words} text=${oneLine(run.found, 100)} />` : ""}</span></span>
  </a></div>`;
}
