// The console: the frame around the views, and the keys that work everywhere.
import { classes, html, render, useEffect, useErrorBoundary, useMedia, useSignal, useState } from "./lib/dom.js";
import { handleKey, useKeys } from "./lib/keys.js";
import { signOut } from "./lib/api.js";
import { visible } from "./lib/format.js";
import { attempt, begin, may, principal, reachable, route, setTheme, theme, waitingCount } from "./lib/store.js";
import { Messages } from "./parts/basics.js";
import { Approvals } from "./views/approvals.js";
import { Compare } from "./views/compare.js";
import { Health } from "./views/health.js";
import { Help } from "./views/help.js";
import { NewChat } from "./views/new_chat.js";
import { Queue } from "./views/queue.js";
import { RunList } from "./views/runs.js";
import { SessionView } from "./views/session.js";
import { SignIn } from "./views/sign_in.js";

const THEMES = { "": ["Theme: system", "light"], light: ["Theme: light", "dark"], dark: ["Theme: dark", ""] };

function go(hash) {
  location.hash = hash;
}

function App() {
  const who = useSignal(principal);
  const isReachable = useSignal(reachable);
  const shade = useSignal(theme);
  useEffect(() => { document.documentElement.dataset.theme = shade; }, [shade]);
  if (who === undefined) return html`<main class="loading" id="main"><p>${isReachable ? "Loading the console" : "The service cannot be reached. Trying again."}</p></main>`;
  if (who === null) return html`<${SignIn} />`;
  return html`<${Frame} who=${who} isReachable=${isReachable} shade=${shade} />`;
}

function Frame({ who, isReachable, shade }) {
  const { parts, query } = useSignal(route);
  const waiting = useSignal(waitingCount);
  const [isHelp, setHelp] = useState(false);
  const [place = "runs"] = parts;
  const leave = async () => { await attempt(signOut); principal.value = null; };
  useKeys("Everywhere", [
    { keys: "g r", label: "Runs", run: () => go("#/runs") },
    { keys: "g a", label: "Approvals", run: () => go("#/approvals") },
    { keys: "g q", label: "Queue", run: () => go("#/queue") },
    { keys: "g h", label: "Health", run: () => go("#/health") },
    may("run") && { keys: "c", label: "New chat", run: () => go("#/new") },
    { keys: "t", label: "Light, dark or as the system", run: () => setTheme(THEMES[shade][1]) },
    { keys: "?", label: "These keys", run: () => setHelp(true) },
  ], [shade]);
  useEffect(() => { document.title = `${waiting ? `(${waiting}) ` : ""}Holdfast`; }, [waiting]);
  const isSplit = place === "runs" || place === "new";
  return html`<a class="skip" href="#main" onClick=${(event) => { event.preventDefault(); document.getElementById("main").focus(); }}>Skip to the content</a>
    <header class="bar">
      <a class="brand" href="#/runs"><span class="mark" aria-hidden="true"></span>Holdfast</a>
      <nav aria-label="Console">
        <${Place} to="#/runs" name="Runs" isHere=${isSplit} />
        <${Place} to="#/approvals" name="Approvals" isHere=${place === "approvals"}>${waiting ? html`<b class="badge" aria-label=${`${waiting} open`}>${waiting}</b>` : null}<//>
        <${Place} to="#/queue" name="Queue" isHere=${place === "queue"} />
        <${Place} to="#/health" name="Health" isHere=${place === "health"} />
      </nav>
      <span class="end">
        ${isReachable ? null : html`<span class="state tone-bad" role="status"><span class="sign">\u00d7</span>not reachable</span>`}
        ${may("run") ? html`<a class="button primary" href="#/new">New chat<kbd aria-hidden="true">c</kbd></a>` : html`<span class="quiet">${may("read") ? "read only" : "read only, without texts"}</span>`}
        <button type="button" class="plain icon" aria-label=${THEMES[shade][0]} title=${THEMES[shade][0]} onClick=${() => setTheme(THEMES[shade][1])}><span class=${`theme-${shade || "system"}`} aria-hidden="true"></span></button>
        <button type="button" class="plain icon" aria-label="Keys" title="Keys (?)" onClick=${() => setHelp(true)}>?</button>
        <span class="who" title=${`tenant ${visible(who.tenant || "default")}; ${who.scopes.join(", ")}`}>${visible(who.name)}</span>
        ${who.by === "cookie" ? html`<button type="button" class="plain" onClick=${leave}>Sign out</button>` : null}
      </span>
    </header>
    <main id="main" tabindex="-1" class=${classes("main", isSplit && "split", isSplit && (parts[1] || place === "new") && "has-detail")}><${Guarded} key=${isSplit ? "runs" : place} place=${place} parts=${parts} query=${query} /></main>
    <${Messages} />
    ${isHelp ? html`<${Help} onClose=${() => setHelp(false)} />` : null}`;
}

/** A view that fails says so, and the rest of the console stays. */
function Guarded({ place, parts, query }) {
  const [error, reset] = useErrorBoundary();
  useEffect(() => { if (error) reset(); }, [parts.join("/")]);
  if (error) {
    return html`<section class="empty"><h1>This view failed</h1><p class="quiet">${visible(error.message ?? error)}</p>
      <p><button type="button" class="button" onClick=${reset}>Show it again</button></p></section>`;
  }
  return show(place, parts, query);
}

function Place({ to, name, isHere, children }) {
  return html`<a href=${to} class=${classes("place", isHere && "chosen")} aria-current=${isHere ? "page" : null}>${name}${children}</a>`;
}

function show(place, parts, query) {
  switch (place) {
    case "approvals": return html`<${Approvals} parts=${parts.slice(1)} />`;
    case "compare": return html`<${Compare} names=${parts.slice(1, 3)} />`;
    case "health": return html`<${Health} />`;
    case "queue": return html`<${Queue} />`;
    case "new": return html`<${RunList} chosen="" /><${NewChat} query=${query} />`;
    case "runs": return html`<${RunList} chosen=${parts[1] ?? ""} />${parts[1] ? html`<${SessionView} key=${parts[1]} name=${parts[1]} tab=${parts[2] ?? ""} query=${query} />` : html`<${Nothing} />`}`;
    default: return html`<section class="empty"><h1>There is no such page</h1><p><a href="#/runs">All runs</a></p></section>`;
  }
}

/** Beside the list, while no run is chosen: what waits for a person. A narrow screen has no room for it, nor its keys. */
function Nothing() {
  const waiting = useSignal(waitingCount);
  if (useMedia("(max-width: 900px)")) return null;
  if (waiting) return html`<div class="beside"><${Approvals} parts=${[]} /></div>`;
  return html`<section class="empty placeholder"><p class="quiet">Choose a run, or press <kbd>c</kbd> for a new chat. <kbd>?</kbd> lists the keys.</p></section>`;
}

document.addEventListener("keydown", handleKey);
const root = document.getElementById("app");
root.textContent = "";
render(html`<${App} />`, root);
begin();
