// The parts of what is shown of a session: turns, iterations, model calls, tools. Each is made when it is first
// named, since a reader may come in the middle. Pure.
import { GrowingText } from "./text.js";

/** What is shown of a session before its first item. */
export function emptySession() {
  return {
    position: "0",
    last: { turn: 0, status: "idle", questions: [] },
    turns: new Map(),
    changes: [],
    records: [],
    calls: new Map(),
    tools: new Map(),
    questions: new Map(),
    current: null,
    breakers: new Map(),
    custom: [],
    at: 0,
  };
}

/** The model call to which text belongs. Of a reply that was cut off, the journal names only the turn. */
export function keyOfCall(state, key) {
  if (key.endsWith(".model")) return key;
  const turn = turnOf(state, placeOf(key).turn);
  const last = turn.iterations.at(-1);
  const index = last?.call && last.call.endedAt !== null ? turn.iterations.length : Math.max(0, turn.iterations.length - 1);
  return `t${turn.number}.i${index}.model`;
}

/** The turn with this number; it is made when it is first named. */
export function turnOf(state, number) {
  let turn = state.turns.get(number);
  if (!turn) {
    turn = {
      number, agent: "", message: null, openedAt: 0, closedAt: 0, status: "running", error: null,
      by: "", request: "", metadata: null, model: "", iterations: [], marks: [], usage: newUsage(),
      lost: newUsage(), questions: [], text: "", counts: true, lastAt: 0, inDoubt: [], records: 0,
    };
    state.turns.set(number, turn);
  }
  return turn;
}

/** Turn and iteration of a key such as `t2.i0.tool.1`. */
export function placeOf(key) {
  const found = /^t(\d+)(?:\.i(\d+))?/.exec(key) ?? [];
  return { turn: Number(found[1] ?? 0), iteration: found[2] === undefined ? null : Number(found[2]) };
}

export function iterationOf(state, key) {
  const place = placeOf(key);
  const turn = turnOf(state, place.turn);
  const index = place.iteration ?? 0;
  while (turn.iterations.length <= index) {
    turn.iterations.push({ index: turn.iterations.length, call: null, tools: [], output: null, begunAt: 0 });
  }
  return turn.iterations[index];
}

/** The model call with this key. */
export function callOf(state, key) {
  let call = state.calls.get(key);
  if (!call) {
    call = {
      key, text: new GrowingText(), reasoning: new GrowingText(), attempts: [], withdrawn: [],
      waits: [], reply: null, error: null, tried: [], lost: null, count: 0, startedAt: null,
      endedAt: null, downtime: 0, drafts: [], hosted: [], citations: [], by: "",
    };
    state.calls.set(key, call);
    iterationOf(state, key).call = call;
    call.startedAt = turnOf(state, placeOf(key).turn).lastAt || null;
  }
  state.current = key;
  return call;
}

/** An attempt of a call or tool, by its number from 1. */
export function attemptOf(effect, number) {
  let attempt = effect.attempts.find((one) => one.number === number && one.state === "running");
  if (!attempt) {
    attempt = { number, target: "", state: "running", error: null, wait: null, text: "" };
    effect.attempts.push(attempt);
  }
  return attempt;
}

/** The tool call with this key. */
export function toolOf(state, key) {
  let tool = state.tools.get(key);
  if (!tool) {
    tool = {
      key, index: Number(key.split(".").at(-1)), id: "", name: "", arguments: "", attempts: [],
      waits: [], state: "planned", result: null, error: null, startedAt: null, endedAt: null,
      usage: null, count: 0, downtime: 0, nested: [], questions: [],
    };
    state.tools.set(key, tool);
    const iteration = iterationOf(state, key);
    iteration.tools[tool.index] = tool;
  }
  return tool;
}

export function newUsage() {
  return { input: 0, output: 0, cached_input: 0, reasoning: 0 };
}

/** The text of the parts of a message. */
export function textOf(parts) {
  return (parts ?? []).filter((part) => part.type === "text").map((part) => part.text).join("");
}
