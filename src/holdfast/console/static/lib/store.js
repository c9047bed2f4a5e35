// What several views share: who is signed in, the agents, the runs, the open questions. The stream of changes
// keeps them fresh while the page is seen; they are read when it begins, and after an act.
import { atMostEvery, computed, effect, signal } from "./dom.js";
import { ApiError, get, readPrincipal } from "./api.js";
import { stale, watchChanges } from "./changes.js";
import { applyChange, asksDiffer, mergePages, stateOf } from "./runs.js";
import { parseRoute } from "./routes.js";

const PAGE = 100;
const QUESTIONS = 200;
const SECONDS_TO_SEARCH = 10; // between two searches, whose hits the changes do not tell

export const route = signal(parseRoute(location.hash));
export const principal = signal(undefined); // undefined: not known yet; null: nobody
export const agents = signal([]);
export const questions = signal([]);
/** Whether more questions are open than were read. */
export const hasMoreQuestions = signal(false);
export const runs = signal({ entries: [], next: "", loading: true, loaded: false });
export const filter = signal({ q: "", agent: "", state: "", cost: "" });
/** Whether the service knows what tokens cost. */
export const hasCosts = computed(() => runs.value.entries.some((one) => one.turn_cost !== undefined));
export const messages = signal([]);
export const reachable = signal(true);
export const theme = signal(localStorage.getItem("holdfast-theme") ?? "");

export const waitingCount = computed(() => (hasMoreQuestions.value ? `${questions.value.length}+` : questions.value.length));

addEventListener("hashchange", () => { route.value = parseRoute(location.hash); });

/** Whether the person who is signed in may do something. */
export function may(scope) {
  const scopes = principal.value?.scopes ?? [];
  return scopes.includes("admin") || scopes.includes(scope);
}

/** Show a message for some seconds; of an error, what the service says. */
export function tell(text, kind = "info", fix = "") {
  const entry = { id: Math.random(), text, kind, fix };
  messages.value = [...messages.value, entry].slice(-4);
  setTimeout(() => {
    messages.value = messages.value.filter((one) => one !== entry);
  }, kind === "error" ? 9000 : 4000);
}

/** Do something, and tell why it failed. Returns undefined then. */
export async function attempt(act) {
  try {
    return await act();
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    if (error.status === 401) principal.value = null;
    else tell(error.message, "error", error.problem.fix ?? "");
    return undefined;
  }
}

/** Find out who is signed in, and begin. */
export async function begin() {
  try {
    principal.value = await readPrincipal();
    if (principal.value) agents.value = await get("agents");
  } catch (error) {
    reachable.value = false;
    if (principal.value === undefined) setTimeout(begin, 1500);
    if (!(error instanceof ApiError)) throw error;
    return;
  }
  reachable.value = true;
  if (principal.value) watch();
}

let following = null;

/** Follow the changes, until nobody is signed in. The first reading is that of the stream's beginning. */
function watch() {
  following?.abort();
  following = new AbortController();
  watchChanges({ onItem: applyItem, onEnd: (error) => { if (error.status === 401) principal.value = null; } }, following.signal);
  setTimeout(() => { if (!runs.value.loaded) refresh(); }, 1500);
}

effect(() => {
  if (principal.value === null) following?.abort();
});

effect(() => {
  if (stale.value) queueMicrotask(refresh); // what it reads is no reason to read again
});

/** The changes since a reading began: its answer may be older than they are. */
let meanwhile = [];
let reads = 0;

function applyItem(item) {
  if (item.type !== "sessions") return;
  if (reads) meanwhile.push(item);
  runs.value = applyChange(runs.value, item, filter.value);
  if (asksDiffer(questions.value, item, may("read"))) readQuestions();
  if (filter.value.q) searchAgain();
}

const searchAgain = atMostEvery(SECONDS_TO_SEARCH, () => { if (filter.value.q) refresh(); });
const readQuestions = atMostEvery(0.5, () => attemptReading(async () => {
  showQuestions(await get("questions", { limit: QUESTIONS }));
}));

function showQuestions(asked) {
  questions.value = asked.questions;
  hasMoreQuestions.value = Boolean(asked.next);
}

let generation = 0;

function queryOf(wanted) {
  return { limit: PAGE, q: wanted.q, agent: wanted.agent, status: wanted.state === "in_doubt" ? "" : wanted.state, min_cost: wanted.cost };
}

/** Read the first page of the runs and the open questions again. */
export async function refresh() {
  if (!principal.value) return;
  const wanted = filter.value;
  const mine = generation;
  reads += 1;
  await attemptReading(async () => {
    const [page, asked] = await Promise.all([get("sessions", queryOf(wanted)), get("questions", { limit: QUESTIONS })]);
    if (mine !== generation) return;
    showQuestions(asked);
    const before = runs.value;
    const read = {
      entries: before.loaded ? mergePages(before.entries, page) : page.sessions,
      next: before.loaded && before.entries.length > PAGE ? before.next : page.next ?? "",
      loading: false, loaded: true,
    };
    runs.value = meanwhile.reduce((known, item) => applyChange(known, item, wanted), read);
  });
  reads -= 1;
  if (!reads) meanwhile = [];
}

/** Read something, and note whether the service can be reached. */
async function attemptReading(read) {
  try {
    await read();
    reachable.value = true;
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    if (error.status === 401) principal.value = null;
    else if (error.status === 0 || error.status >= 500) {
      reachable.value = false;
      readLater();
    } else runs.value = { ...runs.value, loading: false, error: error.message };
  }
}

const readLater = atMostEvery(3, () => { if (document.visibilityState === "visible") refresh(); });

/** Choose which runs are listed. */
export function setFilter(wanted) {
  filter.value = { ...filter.value, ...wanted };
  generation += 1;
  runs.value = { entries: [], next: "", loading: true, loaded: false };
  refresh();
}

let readsPage = false;

/** Read the next page of the runs. */
export async function readMore() {
  const before = runs.value.next;
  if (!before || readsPage) return;
  readsPage = true;
  const mine = generation;
  try {
    const page = await get("sessions", { ...queryOf(filter.value), before });
    if (mine === generation) {
      const known = new Set(runs.value.entries.map((one) => one.session));
      const added = page.sessions.filter((one) => !known.has(one.session));
      runs.value = { ...runs.value, entries: [...runs.value.entries, ...added], next: page.next ?? "" };
    }
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
  } finally {
    readsPage = false;
  }
}

/** The runs that the filter leaves. */
export const shownRuns = computed(() => {
  const wanted = filter.value.state;
  return wanted ? runs.value.entries.filter((one) => stateOf(one) === wanted || one.turn_status === wanted) : runs.value.entries;
});

/** Use light, dark, or what the system says. */
export function setTheme(name) {
  theme.value = name;
  localStorage.setItem("holdfast-theme", name);
}
