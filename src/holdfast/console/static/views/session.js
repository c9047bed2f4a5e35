// A session: its conversation, its timeline and its journal, and what can be done with it.
import { classes, html, useEffect, useLayoutEffect, useMemo, useNow, useRef, useSignal, useState } from "../lib/dom.js";
import { change, linkTo, pathOf, post } from "../lib/api.js";
import { address } from "../lib/routes.js";
import { useKeys } from "../lib/keys.js";
import { FollowedSession } from "../lib/session_store.js";
import { textOf } from "../lib/fold.js";
import { QUEUED, isAtRest, titleOf } from "../lib/runs.js";
import { count, plural, visible } from "../lib/format.js";
import { changed, isFollowing } from "../lib/changes.js";
import { useReading } from "../lib/reading.js";
import { agents, attempt, may, questions, refresh, runs, tell } from "../lib/store.js";
import { Ask, Button, State, Words } from "../parts/basics.js";
import { Composer } from "../parts/composer.js";
import { Timeline } from "../parts/timeline.js";
import { Turn } from "../parts/turn.js";
import { Replay } from "./replay.js";

const FIRST_TURNS = 20;
const TABS = [["", "Conversation", "1"], ["timeline", "Timeline", "2"], ["replay", "Replay", "3"]];

/** Follow a session while it is shown. */
export function useFollowed(name) {
  const followed = useMemo(() => new FollowedSession(name), [name]);
  useEffect(() => {
    followed.begin();
    return () => followed.end();
  }, [followed]);
  return { followed, version: useSignal(followed.version), connection: useSignal(followed.connection) };
}

export function SessionView({ name, tab, query }) {
  const { followed, version, connection } = useFollowed(name);
  const session = followed.state;
  const status = session.last.status;
  const now = useNow(1, status === "running" || status === "waiting");
  const open = useSignal(questions).filter((one) => one.session === name);
  const known = useSignal(runs).entries.find((one) => one.session === name);
  const [ask, setAsk] = useState(null);
  const [draft, setDraft] = useState(null);
  const agent = agentOf(session, known);
  const queue = useReading("queue/entries", { session: name, limit: 100 }, { on: [changed.queue], when: `${session.last.turn} ${status}` });
  const entries = queue.value?.entries ?? [];
  const queued = entries.filter((one) => !one.turn && QUEUED.includes(one.state)).reverse();
  useEffect(() => { if (!isFollowing.peek()) refresh(); }, [status, session.last.questions.join()]);
  const acts = makeActs({ name, session, agent, setAsk, setDraft });
  useKeys("Session", [
    ...TABS.map(([part, label, keys]) => ({ keys, label, run: () => { location.hash = address(["runs", name, part].filter(Boolean)); } })),
    may("run") && { keys: "r", label: "Resume", run: acts.resume, when: () => status === "open" || status === "waiting" },
    may("run") && { keys: "x", label: "Cancel the turn", run: acts.cancel, when: () => ["running", "waiting", "open"].includes(status) },
    may("run") && { keys: "f", label: "Fork", run: acts.fork },
    { keys: "v", label: "Compare with another session", run: acts.compare },
  ], [name, status, version]);
  if (connection instanceof Error) {
    return html`<section class="empty"><h1>${connection.status === 404 ? "There is no such session" : "The session cannot be read"}</h1>
      <p>${visible(connection.message)}</p><p><a class="button" href="#/runs">All runs</a></p></section>`;
  }
  return html`<section class="session" aria-label="Session">
    <${Head} name=${name} session=${session} known=${known} status=${queued.length && isAtRest(status) ? "queued" : status} agent=${agent} connection=${connection} acts=${acts} tab=${tab} />
    ${tab === "timeline" ? html`<${Timeline} session=${session} version=${version} now=${now} entries=${entries} />`
      : tab === "replay" ? html`<${Replay} key=${name} session=${session} version=${version} at=${Number(query.at) || 0} name=${name} />`
        : html`<${Conversation} name=${name} session=${session} version=${version} status=${status} open=${open} now=${now} acts=${acts} queued=${queued} onQueue=${queue.again} focus=${Number(query.turn) || 0} />`}
    ${!tab && may("run") ? html`<${Composer} isRunning=${status === "running"} isWaiting=${status === "waiting"} draft=${draft}
      placeholder=${agent ? `Message ${agent}` : "Message"} onSend=${acts.send} onStop=${acts.cancel} />` : null}
    ${ask ? html`<${Ask} ...${ask} onClose=${() => setAsk(null)} />` : null}
  </section>`;
}

function agentOf(session, known) {
  const last = [...session.turns.values()].at(-1);
  return last?.agent || known?.agent || agents.peek()[0]?.name || "";
}

function Head({ name, session, known, status, agent, connection, acts, tab }) {
  const total = [...session.turns.values()].reduce((sum, turn) => sum + turn.usage.input + turn.usage.output + turn.lost.input + turn.lost.output, 0);
  const first = may("read") ? textOf([...session.turns.values()][0]?.message?.parts) : "";
  const title = known ? titleOf({ ...known, title: known.title || first }) : first || name;
  const shown = known?.in_doubt && isAtRest(status) ? "in_doubt" : status;
  return html`<header class="session-head">
    <div class="top"><a class="back" href="#/runs" aria-label="All runs">\u2190</a>
      <h1><${Words} text=${title} /></h1><${State} name=${shown} />
      ${connection === "live" ? null : html`<span class="state tone-warn" role="status"><span class="sign">\u25cc</span>connecting</span>`}
    </div>
    <p class="facts"><code title="session">${visible(name)}</code> <span>${visible(agent)}</span> <span>${plural(session.turns.size, "turn")}</span> ${total ? html`<span>${count(total)} tokens</span>` : null} <span>${plural(session.records.length, "event")}</span></p>
    <nav aria-label="Views of the session">
      ${TABS.map(([part, label, keys]) => html`<a key=${part} href=${address(["runs", name, part].filter(Boolean))} class=${classes("tab", tab === part && "chosen")} aria-current=${tab === part ? "page" : null}>${label}<kbd aria-hidden="true">${keys}</kbd></a>`)}
      <span class="acts">
        ${may("run") && status === "open" ? html`<${Button} label="Resume" keys="r" tone="primary" onClick=${acts.resume} />` : null}
        ${may("run") && ["open", "waiting"].includes(status) ? html`<${Button} label="Abandon" onClick=${acts.abandon} />` : null}
        ${may("run") && ["running", "waiting"].includes(status) ? html`<${Button} label="Cancel" keys="x" tone="bad" onClick=${acts.cancel} />` : null}
        ${may("run") && ["failed", "limit", "cancelled", "stopped"].includes(status) ? html`<${Button} label="Retry" onClick=${acts.retry} />` : null}
        ${may("run") ? html`<${Button} label="Fork" keys="f" onClick=${acts.fork} />` : null}
        <${Button} label="Compare" keys="v" onClick=${acts.compare} />
        ${may("run") ? html`<${Button} label="Rename" onClick=${() => acts.rename(title)} />` : null}
        ${may("read") ? html`<a class="button" href=${linkTo(`sessions/${pathOf(name)}/export`)} download=${`${name}.jsonl`}>Export</a>` : null}
        ${may("run") ? html`<${Button} label="Delete" tone="bad" onClick=${acts.remove} />` : null}
      </span>
    </nav>
  </header>`;
}

/** The messages of a session that have not begun: when each of them does, and how to take it out. */
function Queued({ entries, onQueue }) {
  const takeOut = async (one) => {
    if (await attempt(() => post(`queue/entries/${one.entry}/cancel`))) tell("The message was taken out of the queue.", "good");
    onQueue();
    refresh();
  };
  return html`${entries.map((one) => html`<p key=${one.entry} class="note"><${State} name="queued" /> message ${one.entry}: ${one.state === "blocked" ? "it begins after the turn before it" : one.state === "scheduled" || one.state === "postponed" ? "it begins later" : "it begins as soon as a worker has a free place"}
    ${may("run") ? html` <${Button} tone="plain" label="Take it out" onClick=${() => takeOut(one)} />` : null}</p>`)}`;
}

function Conversation({ name, session, version, status, open, now, acts, queued, onQueue, focus }) {
  const box = useRef(null);
  const end = useRef(true);
  const [limit, setLimit] = useState(FIRST_TURNS);
  const all = [...session.turns.values()].sort((a, b) => a.number - b.number);
  const from = focus ? Math.max(0, Math.min(all.findIndex((one) => one.number === focus), all.length - limit)) : Math.max(0, all.length - limit);
  const onScroll = () => {
    const element = box.current;
    end.current = element.scrollHeight - element.scrollTop - element.clientHeight < 80;
  };
  useLayoutEffect(() => {
    if (end.current && !focus) box.current.scrollTop = box.current.scrollHeight;
  }, [version]);
  useEffect(() => {
    if (focus && all.length) document.getElementById(`turn-${focus}`)?.scrollIntoView({ block: "start" });
  }, [focus, all.length > 0]);
  return html`<div class="conversation" ref=${box} onScroll=${onScroll} tabindex="0" role="region" aria-label="Conversation">
    <div class="column">
    ${from > 0 ? html`<${Button} tone="plain" label=${`Show ${plural(Math.min(from, 50), "earlier turn")} of ${from}`} onClick=${() => { end.current = false; setLimit(limit + 50); }} />` : null}
    ${all.slice(from).map((turn) => html`<${Turn} key=${turn.number} turn=${turn} isLast=${turn.number === session.last.turn} status=${status} open=${open} now=${now}
      acts=${may("run") ? (one) => html`<${TurnActs} turn=${one} acts=${acts} />` : null} />`)}
    ${session.changes.map((one) => html`<p key=${one.number} class="note">${one.kind === "rewind" ? `rewound to ${one.to === 0 ? "the beginning" : `turn ${one.to}`}` : "older turns were replaced by a summary"}${one.by ? ` by ${visible(one.by)}` : ""}</p>`)}
    ${!all.length && !queued.length ? html`<p class="quiet pad">Nothing was said yet.</p>` : null}
    <${Queued} entries=${queued} onQueue=${onQueue} />
    ${status === "open" ? html`<p class="note warn">The process that drove this turn has ended. ${may("run") ? "Resume continues it where the journal ends; finished tools do not run again." : ""}</p>` : null}
    </div>
  </div>`;
}

function TurnActs({ turn, acts }) {
  if (!turn.closedAt) return null;
  return html`${turn.message ? html`<${Button} tone="plain" label="Edit and fork" onClick=${() => acts.edit(turn)} />` : null}
    <${Button} tone="plain" label="Fork here" onClick=${() => acts.forkAt(turn.number)} />
    ${turn.counts ? html`<${Button} tone="plain" label="Rewind to here" onClick=${() => acts.rewind(turn.number)} />` : null}`;
}

function makeActs({ name, session, agent, setAsk, setDraft }) {
  const path = `sessions/${pathOf(name)}`;
  const act = (word, done) => async () => {
    if (await attempt(() => post(`${path}/${word}`))) tell(done, "good");
    refresh();
  };
  const go = (to) => { location.hash = address(["runs", to]); };
  const fork = async (body) => {
    setAsk(null);
    const made = await attempt(() => post(`${path}/fork`, body));
    if (made) {
      tell("Forked. This is the new session.", "good");
      go(made.session);
    }
    refresh();
  };
  const send = async (message, text) => {
    await post("turns", { agent, message, session: name });
    if (text) setDraft(null);
    refresh();
  };
  const rewindTo = async (number) => {
    setAsk(null);
    return attempt(() => post(`${path}/rewind`, { to: number }));
  };
  return {
    send,
    resume: act("resume", "The turn goes on."),
    cancel: act("cancel", "The turn was told to stop."),
    abandon: () => setAsk({ title: "Abandon this turn?", text: "It ends as cancelled. Its tools that had begun stay in doubt.", action: "Abandon", tone: "primary bad", onDone: () => { setAsk(null); act("abandon", "The turn was abandoned.")(); } }),
    fork: () => fork({}),
    forkAt: (number) => fork({ at: number }),
    compare: () => { location.hash = address(["compare", name]); },
    rename: (title) => setAsk({ title: "Rename the session", field: "Title", value: title, action: "Rename", onDone: async (text) => { setAsk(null); if (text.trim()) await attempt(() => change("PATCH", path, { title: text.trim() })); refresh(); } }),
    remove: () => setAsk({ title: "Delete this session?", text: "Its journal is deleted. This cannot be undone.", action: "Delete", tone: "primary bad", onDone: async () => { setAsk(null); const done = await attempt(async () => { await change("DELETE", path); return true; }); if (done) { tell("Deleted."); location.hash = "#/runs"; } refresh(); } }),
    rewind: (number) => setAsk({ title: `Rewind to turn ${number}?`, text: "Later turns no longer count. Their records stay in the journal.", action: "Rewind", onDone: async () => { if (await rewindTo(number)) tell(`Rewound to turn ${number}.`, "good"); refresh(); } }),
    edit: (turn) => setAsk({ title: `Edit turn ${turn.number}, and fork`, field: "Message", value: textOf(turn.message.parts), action: "Fork with this message", onDone: (text) => { if (text.trim()) fork({ edit: { turn: turn.number, message: text.trim() } }); } }),
    retry: () => retryLast({ session, name, rewindTo, send }),
  };
}

/** Try the message of the last turn again: the failed turn no longer counts. */
async function retryLast({ session, rewindTo, send }) {
  const turn = [...session.turns.values()].sort((a, b) => a.number - b.number).at(-1);
  if (!turn?.message) return;
  if (!(await rewindTo(turn.number - 1))) return;
  const parts = turn.message.parts.filter((part) => part.type === "text" || part.type === "media");
  await attempt(() => send(parts.map(partOf), ""));
}

function partOf(part) {
  if (part.type === "text") return { type: "text", text: part.text };
  const { media_type, data, url, name } = part;
  return Object.fromEntries(Object.entries({ type: "media", media_type, data, url, name }).filter(([, value]) => value));
}
