// The states of runs in words, and pages of runs. Pure.

/** Each state: its name, what it means, and how it is coloured. */
export const STATES = {
  running: { name: "Running", tone: "live", sign: "\u25cf", about: "A process works on it." },
  queued: { name: "Queued", tone: "calm", sign: "\u25cb", about: "A message is in the queue and has not begun." },
  waiting: { name: "Waiting for you", tone: "ask", sign: "?", about: "It waits for an answer." },
  in_doubt: { name: "In doubt", tone: "doubt", sign: "!", about: "A tool may have taken effect, and nobody knows." },
  open: { name: "Interrupted", tone: "doubt", sign: "\u25cc", about: "No process drives it. It can be resumed." },
  failed: { name: "Failed", tone: "bad", sign: "\u00d7", about: "The turn ended with an error." },
  limit: { name: "Limit reached", tone: "warn", sign: "\u2016", about: "The turn ended at a limit." },
  cancelled: { name: "Cancelled", tone: "calm", sign: "\u2013", about: "Somebody cancelled the turn." },
  stopped: { name: "Stopped", tone: "calm", sign: "\u25a0", about: "A middleware ended the turn." },
  completed: { name: "Done", tone: "good", sign: "\u2713", about: "The turn is complete." },
  idle: { name: "Empty", tone: "calm", sign: "\u00b7", about: "There is no turn yet." },
};

/** The states of an entry of the queue whose turn has not begun, or is tried again. */
export const QUEUED = ["ready", "blocked", "scheduled", "postponed"];

/** Whether the last turn has ended and no message is queued. */
export function isAtRest(status) {
  return !["running", "waiting", "open", "queued"].includes(status);
}

/** The state of a run in the list. Of one at rest, what may have happened without anybody knowing comes first. */
export function stateOf(run) {
  if (run.in_doubt && isAtRest(run.turn_status)) return "in_doubt";
  return run.turn_status in STATES ? run.turn_status : "idle";
}

const REDACTED = "[redacted]";

/** The `{url, host}` of the trace of a turn, which whoever started it has named; null if there is none. */
export function traceOf(turn) {
  const given = turn.metadata?.trace_url;
  if (typeof given !== "string" || !URL.canParse(given)) return null;
  const url = new URL(given);
  return url.protocol === "https:" || url.protocol === "http:" ? { url: url.href, host: url.host } : null;
}

/** The title of a run; its name if there is none, or if it may not be seen. */
export function titleOf(run) {
  return run.title && run.title !== REDACTED ? run.title : run.session;
}

/** Put a new first page before the runs that are known; what is no longer in its range is gone. */
export function mergePages(known, page) {
  const fresh = new Set(page.sessions.map((one) => one.session));
  const last = page.next ? page.sessions.at(-1)?.changed_at ?? 0 : -Infinity;
  const rest = known.filter((one) => !fresh.has(one.session) && one.changed_at < last);
  return [...page.sessions, ...rest];
}

/** Whether a run fits a filter. Of a search, only the service knows. */
export function fitsFilter(run, wanted) {
  if (wanted.agent && run.agent !== wanted.agent) return false;
  if (wanted.cost && !(run.turn_cost !== undefined && run.turn_cost >= Number(wanted.cost))) return false;
  return !wanted.state || wanted.state === "in_doubt" || run.turn_status === wanted.state;
}

/** A run whose first turn is queued stands before all others. */
function isNew(run) {
  return run.turn === 0 && run.turn_status === "queued";
}

function byChange(one, other) {
  return isNew(other) - isNew(one) || other.changed_at - one.changed_at || (one.session < other.session ? -1 : 1);
}

/**
 * What is known of the runs after a change: `{entries, next, ...}`. A run below the last known one is left to
 * its own page, and of a search only the runs that it has found are brought up to date.
 */
export function applyChange(page, change, wanted) {
  if (!page.loaded) return page;
  const known = new Map(page.entries.map((one) => [one.session, one]));
  const end = page.next ? page.entries.at(-1)?.changed_at ?? 0 : -Infinity;
  for (const { session } of change.deleted ?? []) known.delete(session);
  for (const one of change.sessions) {
    const before = known.get(one.session);
    if (before && before.changed_at > one.changed_at) continue;
    if (wanted.q && !before) continue;
    if (!fitsFilter(one, wanted)) known.delete(one.session);
    else if (before || one.changed_at >= end) known.set(one.session, before?.found === undefined ? one : { ...one, found: before.found });
  }
  const entries = [...known.values()];
  return { ...page, entries: wanted.q ? entries : entries.sort(byChange) };
}

/** Whether the runs of a change have other open questions than those that are known. A redacted reader sees how many. */
export function asksDiffer(questions, change, seesKeys) {
  const open = new Map();
  for (const one of questions) open.set(one.session, [...(open.get(one.session) ?? []), one.key]);
  const sign = (keys) => (seesKeys ? [...keys].sort().join("\n") : keys.length);
  return change.sessions.some((one) => sign(one.questions) !== sign(open.get(one.session) ?? []))
    || (change.deleted ?? []).some((one) => open.has(one.session));
}
