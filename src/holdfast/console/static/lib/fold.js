// Folds the items of a session's stream into what the console shows. Pure: the same items give the same
// state, live and from the journal. A record of the journal always has the last word.
import { applyNotice } from "./fold_notices.js";
import { attemptOf, callOf, emptySession, iterationOf, keyOfCall, textOf, toolOf, turnOf } from "./session_state.js";

export { emptySession, textOf };

const ASKED = ".asked";

/** Add one item to the state. */
export function applyItem(state, item) {
  switch (item.type) {
    case "event": applyRecord(state, item); break;
    case "text": applyText(state, item); break;
    case "reasoning": callOf(state, keyOfCall(state, item.key)).reasoning.put(item.offset, item.text); break;
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
  const call = callOf(state, keyOfCall(state, item.key));
  if (item.attempt) attemptOf(call, item.attempt);
  call.text.put(item.offset, item.text);
  call.startedAt ??= state.at;
}

function applyWithdrawal(state, item) {
  const call = callOf(state, keyOfCall(state, item.key));
  const attempt = item.attempt ? attemptOf(call, item.attempt) : call.attempts.at(-1);
  if (call.text.text) {
    const lost = { text: call.text.text, reason: item.reason, attempt: item.attempt };
    call.withdrawn.push(lost);
    if (attempt) attempt.text = lost.text;
  }
  call.text.clear();
  call.reasoning.clear();
  call.hosted = [];
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
  model_replied(state, event, turn, item) {
    const call = callOf(state, event.key);
    endCall(call, event, turn);
    call.reply = event.reply;
    if (!item.isNested) call.hosted = item.hosted ?? []; // else only notices tell
    call.citations = item.citations ?? [];
    call.by = event.by ?? "";
    turn.model = event.reply.model || turn.model;
    turn.text = textOf(event.reply.parts);
    setText(call.text, turn.text);
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
  results_withheld(state, event, turn) {
    turn.marks.push({
      kind: "withheld", at: event.at, tools: event.tools ?? [], error: event.error,
    });
    addUsage(turn.lost, event.lost);
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
    turn.marks.push({ kind: "interrupted", at: event.at, reason: event.reason, by: event.by ?? "", why: event.why ?? "", deliveries: event.deliveries ?? 0 });
    for (const key of (event.started ?? []).filter((one) => /\.tool\.\d+$/.test(one))) {
      const tool = toolOf(state, key);
      tool.state = "in_doubt";
      tool.endedAt = event.at;
      turn.inDoubt.push(key);
    }
    const text = textOf(event.partial?.parts);
    const call = text ? callOf(state, keyOfCall(state, event.key)) : state.calls.get(state.current);
    if (call && call.endedAt === null) {
      if (text) setText(call.text, text);
      call.endedAt = event.at;
    }
    addUsage(turn.usage, event.usage);
    addUsage(turn.usage, event.partial?.usage);
    turn.text = text || turn.text;
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

function setText(growing, text) {
  growing.clear();
  growing.put(0, text);
}

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
  return event.result.in_doubt === true;
}
