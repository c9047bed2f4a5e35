// Folds the items of a session's stream into what the console shows. Pure: the same items give the same
// state, live and from the journal. A record of the journal always has the last word.
import { GrowingText } from "./text.js";
import { applyNotice } from "./fold_notices.js";

const ASKED = ".asked";

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

/** Add one item to the state. */
export function applyItem(state, item) {
  switch (item.type) {
    case "event": applyRecord(state, item); break;
    case "text": applyText(state, item); break;
    case "reasoning": callOf(state, item.key).reasoning.put(item.offset, item.text); break;
    case "withdrawn": applyWithdrawal(state, item); break;
    case "notice": applyNotice(state, item); break;
    case "status": state.last = { turn: item.turn, status: item.status, questions: item.questions ?? [] }; break;
    default: break;
  }
  if (item.position) state.position = item.position;
  return state;
}

/** The state after some items. */
export function foldItems(items) {
  return items.reduce(applyItem, emptySession());
}

function applyText(state, item) {
  const call = callOf(state, item.key);
  if (item.attempt) attemptOf(call, item.attempt);
  call.text.put(item.offset, item.text);
  call.startedAt ??= state.at;
}

function applyWithdrawal(state, item) {
  const call = callOf(state, item.key);
  const attempt = item.attempt ? attemptOf(call, item.attempt) : call.attempts.at(-1);
  if (call.text.text) {
    const lost = { text: call.text.text, reason: item.reason, attempt: item.attempt };
    call.withdrawn.push(lost);
    if (attempt) attempt.text = lost.text;
  }
  call.text.clear();
  call.reasoning.clear();
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

function iterationOf(state, key) {
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
      endedAt: null, downtime: 0, drafts: [],
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

function addUsage(total, usage) {
  for (const name of Object.keys(total)) total[name] += usage?.[name] ?? 0;
}

function applyRecord(state, item) {
  const event = item.event;
  state.records.push(item);
  state.at = event.at;
  const handle = RECORDS[event.type];
  const turn = handle === undefined || event.type in CHANGES ? null : turnOf(state, item.turn);
  if (handle) handle(state, event, turn, item);
  if (turn) {
    turn.lastAt = event.at;
    turn.records += 1;
  }
}

const CHANGES = { session_rewound: true, history_compacted: true, session_titled: true };

const RECORDS = {
  turn_opened(state, event, turn) {
    turn.openedAt = event.at;
    turn.message = event.message ?? null;
    turn.agent = event.agent ?? "";
    turn.by = event.by ?? "";
    turn.request = event.request ?? "";
    turn.metadata = event.options?.metadata ?? null;
    turn.limits = event.limits ?? {};
    if (turn.number > state.last.turn) state.last = { turn: turn.number, status: "running", questions: [] };
  },
  turn_accepted(state, event, turn) {
    if (event.message) turn.message = event.message;
  },
  model_replied(state, event, turn) {
    const call = callOf(state, event.key);
    endCall(call, event, turn);
    call.reply = event.reply;
    turn.model = event.reply.model || turn.model;
    turn.text = textOf(event.reply.parts);
    call.text.put(0, turn.text);
    call.text.text = turn.text;
    addUsage(turn.usage, event.reply.usage);
    planTools(state, event);
  },
  model_failed(state, event, turn) {
    const call = callOf(state, event.key);
    endCall(call, event, turn);
    call.error = event.error;
    call.partial = event.partial ?? null;
    addUsage(turn.lost, event.partial?.usage);
  },
  tools_begun(state, event) {
    const iteration = iterationOf(state, event.key);
    iteration.begunAt = event.at;
    for (const tool of iteration.tools) {
      if (tool && tool.state === "planned") {
        tool.state = "running";
        tool.startedAt = event.at;
      }
    }
  },
  tool_finished(state, event, turn) {
    const tool = toolOf(state, event.key);
    tool.name ||= event.result.name;
    tool.result = event.result;
    tool.error = event.error ?? null;
    tool.count = event.attempts ?? 1;
    tool.usage = event.usage ?? null;
    tool.downtime = event.downtime ?? 0;
    tool.endedAt = event.at;
    tool.state = isInDoubt(event) ? "in_doubt" : event.result.is_error ? "error" : "done";
    if (tool.state === "in_doubt") turn.inDoubt.push(event.key);
    tool.attempts.forEach((one) => { if (one.state === "running") one.state = "accepted"; });
    addUsage(turn.usage, event.usage);
  },
  output_checked(state, event) {
    iterationOf(state, event.key).output = event;
    if (!event.parsed_by && state.current) {
      const call = state.calls.get(state.current);
      if (call) call.rejected = event.problems ?? [];
    }
  },
  question_asked(state, event, turn) {
    const key = event.key.slice(0, -ASKED.length);
    const question = {
      key, kind: event.kind, question: event.question, askedAt: event.at, until: event.until ?? null,
      answer: null, by: "", answeredAt: null, why: "",
    };
    state.questions.set(key, question);
    turn.questions.push(question);
    const owner = toolKey(key);
    if (owner) {
      const tool = toolOf(state, owner);
      tool.questions.push(question);
      if (tool.state !== "done") tool.state = "waiting";
    }
  },
  question_answered(state, event) {
    endQuestion(state, event, (question) => {
      question.answer = event.answer;
      question.by = event.by ?? "";
    });
  },
  question_unanswered(state, event) {
    endQuestion(state, event, (question) => { question.why = event.why; });
  },
  turn_resumed(state, event, turn) {
    turn.marks.push({ kind: "resumed", at: event.at, after: turn.lastAt, by: event.by ?? "" });
  },
  limit_extended(state, event, turn) {
    turn.marks.push({ kind: "extended", at: event.at, iterations: event.iterations });
  },
  turn_interrupted(state, event, turn) {
    turn.marks.push({ kind: "interrupted", at: event.at, reason: event.reason, by: event.by ?? "" });
    for (const key of event.started ?? []) {
      const tool = toolOf(state, key);
      tool.state = "in_doubt";
      tool.endedAt = event.at;
      turn.inDoubt.push(key);
    }
    const call = state.current ? state.calls.get(state.current) : null;
    if (call && call.endedAt === null) call.endedAt = event.at;
    addUsage(turn.usage, event.usage);
    addUsage(turn.usage, event.partial?.usage);
  },
  turn_stopped(state, event, turn) {
    turn.marks.push({ kind: "stopped", at: event.at, reason: event.reason, text: event.text ?? "" });
    if (event.text) turn.text = event.text;
    if (event.error) turn.error = event.error;
  },
  turn_closed(state, event, turn) {
    turn.closedAt = event.at;
    turn.status = event.status;
    turn.error = event.error ?? turn.error;
    state.current = null;
    if (turn.number >= state.last.turn) state.last = { turn: turn.number, status: event.status, questions: [] };
  },
  session_rewound(state, event, _turn, item) {
    state.changes.push({ kind: "rewind", number: item.turn, at: event.at, to: event.to, by: event.by ?? "" });
    for (const turn of state.turns.values()) {
      if (turn.number > event.to && turn.number < item.turn) turn.counts = false;
    }
  },
  history_compacted(state, event, _turn, item) {
    state.changes.push({
      kind: "compaction", number: item.turn, at: event.at, summary: event.summary ?? "", by: event.by ?? "",
    });
  },
};

function endCall(call, event, turn) {
  call.count = event.attempts ?? 1;
  call.tried = event.tried ?? [];
  call.lost = event.lost ?? null;
  call.downtime = event.downtime ?? 0;
  call.endedAt = event.at;
  call.startedAt ??= turn.lastAt || turn.openedAt;
  call.drafts = [];
  addUsage(turn.lost, event.lost);
  const last = call.attempts.at(-1);
  if (last?.state === "running") last.state = event.error ? "abandoned" : "accepted";
}

function planTools(state, event) {
  const prefix = event.key.replace(/\.model$/, ".tool.");
  const calls = event.reply.parts.filter((part) => part.type === "tool_call");
  calls.forEach((part, index) => {
    const tool = toolOf(state, `${prefix}${index}`);
    tool.id = part.id;
    tool.name = part.name;
    tool.arguments = part.arguments ?? "{}";
  });
}

function endQuestion(state, event, change) {
  const question = state.questions.get(event.key);
  if (!question) return;
  question.answeredAt = event.at;
  change(question);
  const owner = toolKey(event.key);
  const tool = owner ? state.tools.get(owner) : null;
  if (tool && event.answer?.type === "approved" && event.answer.arguments) {
    tool.arguments = JSON.stringify(event.answer.arguments); // as the tool runs
  }
  if (tool?.state === "waiting" && tool.questions.every((one) => one.answeredAt !== null)) {
    tool.state = "running";
  }
}

function toolKey(key) {
  const found = /^(t\d+\.i\d+\.tool\.\d+)\./.exec(key);
  return found ? found[1] : null;
}

function isInDoubt(event) {
  return event.error?.code === "in_doubt";
}

/** The text of the parts of a message. */
export function textOf(parts) {
  return (parts ?? []).filter((part) => part.type === "text").map((part) => part.text).join("");
}
