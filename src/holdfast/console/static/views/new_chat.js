// A new chat: choose an agent, write the first message.
import { html, useId, useSignal, useState } from "../lib/dom.js";
import { post } from "../lib/api.js";
import { address } from "../lib/routes.js";
import { plural, visible } from "../lib/format.js";
import { agents, may, refresh } from "../lib/store.js";
import { Composer } from "../parts/composer.js";
import { Words } from "../parts/basics.js";

export function NewChat({ query }) {
  const known = useSignal(agents);
  const [chosen, setChosen] = useState(query.agent ?? "");
  const group = useId();
  const agent = known.find((one) => one.name === chosen) ?? known[0];
  if (!may("run")) return html`<section class="empty"><h1>Your key cannot start turns</h1></section>`;
  if (!agent) return html`<section class="empty"><h1>There are no agents</h1></section>`;
  const send = async (message) => {
    const turn = await post("turns", { agent: agent.name, message });
    location.hash = address(["runs", turn.session]);
    refresh();
  };
  return html`<section class="session newchat" aria-label="New chat">
    <div class="conversation"><div class="column">
      <h1>New chat</h1>
      <fieldset><legend>Agent</legend>
        ${known.map((one) => html`<label key=${one.name} class="agent"><input type="radio" name=${group} checked=${one.name === agent.name} onChange=${() => setChosen(one.name)} />
          <span><strong>${visible(one.name)}</strong> <code class="quiet">${visible(one.model)}</code><br /><${Words} class="quiet" as="span" text=${one.description} /></span></label>`)}
      </fieldset>
      ${agent.tools.length ? html`<h2>${plural(agent.tools.length, "tool")}</h2><ul class="plainlist">${agent.tools.map((one) => html`<li key=${one.name}><code class="tool">${visible(one.name)}</code> ${one.effect ? html`<span class=${`effect ${one.effect}`}>${one.effect}</span>` : null} <span class="quiet">${visible(one.description)}</span></li>`)}</ul>` : null}
    </div></div>
    <${Composer} isRunning=${false} isWaiting=${false} onSend=${send} placeholder=${`Message ${agent.name}`} takesFocus draft=${query.text ? query : null} />
  </section>`;
}
