// The health of the service: whether it is ready, and the breakers, limiters and retry budgets of each endpoint.
import { html } from "../lib/dom.js";
import { count, duration, money, plural, visible } from "../lib/format.js";
import { changed } from "../lib/changes.js";
import { useReading } from "../lib/reading.js";

export function Health() {
  const endpoints = useReading("endpoints", {}, { on: [changed.endpoints, changed.sessions], every: 10 });
  const usage = useReading("usage", { by: "agent" }, { on: [changed.sessions], rest: 30 });
  return html`<section class="page health" aria-label="Health"><h1>Health</h1>
    <h2>Endpoints</h2>
    ${endpoints.error ? html`<p class="quiet">${visible(endpoints.error)}</p>` : null}
    ${endpoints.value && !endpoints.value.length ? html`<p class="quiet">No model was called since this process began.</p>` : null}
    <div class="cards">${(endpoints.value ?? []).map((one, at) => html`<${Endpoint} key=${at} endpoint=${one} />`)}</div>
    <h2>Usage by agent</h2>
    ${usage.error ? html`<p class="quiet">${visible(usage.error)}</p>` : null}
    ${usage.value ? html`<div class="table" tabindex="0" role="region" aria-label="Usage by agent"><table><thead><tr><th scope="col">agent</th><th scope="col">turns</th><th scope="col">tokens in</th><th scope="col">tokens out</th>${hasCost(usage.value) ? html`<th scope="col">cost</th>` : null}</tr></thead>
      <tbody>${usage.value.totals.map((one) => html`<tr key=${one.name}><td>${visible(one.name)}</td><td>${one.turns}</td><td>${count(one.usage.input ?? 0)}</td><td>${count(one.usage.output ?? 0)}</td>${hasCost(usage.value) ? html`<td>${one.cost === undefined ? "unknown" : money(one.cost)}</td>` : null}</tr>`)}</tbody></table></div>` : null}
  </section>`;
}

/** Whether the service knows what the tokens of an agent cost. */
function hasCost(usage) {
  return usage.totals.some((one) => one.cost !== undefined);
}

const BREAKERS = { closed: ["good", "closed", "requests are sent"], open: ["bad", "open", "requests are refused"], half_open: ["warn", "half open", "single requests test it"], isolated: ["bad", "isolated", "opened by hand"] };

function Endpoint({ endpoint }) {
  const { breaker, limiter, budget } = endpoint;
  const [tone, word, about] = BREAKERS[breaker?.state] ?? ["calm", "none", "no circuit breaker"];
  return html`<article class="card"><header><strong>${visible(endpoint.target)}</strong></header>
    <dl class="facts">
      <div><dt>circuit breaker</dt><dd><span class=${`state tone-${tone}`}><span class="sign" aria-hidden="true">\u25cf</span>${word}</span> <span class="quiet">${about}${breaker?.seconds ? `, for ${duration(breaker.seconds)} more` : ""}</span></dd></div>
      ${breaker ? html`<div><dt>recent calls</dt><dd>${breaker.calls}${breaker.failures ? html`, <span class="bad">${breaker.failures} failed</span>` : ""}</dd></div>` : null}
      <div><dt>rate limiter</dt><dd>${limiter ? html`${limiter.running} of ${limiter.limit} at once${limiter.waiting ? `, ${plural(limiter.waiting, "call")} waiting` : ""}` : html`<span class="quiet">none</span>`}</dd></div>
      <div><dt>retry budget</dt><dd>${budget ? html`${Math.floor(budget.retries)} retries left` : html`<span class="quiet">none</span>`}</dd></div>
    </dl></article>`;
}
