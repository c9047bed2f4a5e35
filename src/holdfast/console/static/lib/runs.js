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
