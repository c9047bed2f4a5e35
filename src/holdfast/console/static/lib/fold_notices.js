// What the notices of a run in progress add: attempts, announced waits, tools as they start. The journal
// does not have them, so nothing that must be true later may rest on them.
import { applyItem } from "./fold.js";
import { attemptOf, callOf, emptySession, placeOf, toolOf } from "./session_state.js";

/** Add a notice to the state of a session. */
export function applyNotice(state, item) {
  const handle = NOTICES[item.name];
  if (handle) handle(state, item.fields);
  else if (item.fields?.run_id !== undefined) state.custom.push(item);
}

function effectOf(state, key) {
  return key.endsWith(".model") ? callOf(state, key) : toolOf(state, key);
}

function isEffect(key) {
  return /\.model$|\.tool\.\d+$/.test(key);
}

/** The model call in progress; its reply, once there is one, has the last word. */
function currentCall(state) {
  const call = state.current ? state.calls.get(state.current) : null;
  return call?.reply ? null : call;
}

const NOTICES = {
  attempt_started(state, fields) {
    if (!isEffect(fields.key)) return;
    const effect = effectOf(state, fields.key);
    for (const one of effect.attempts) if (one.state === "running") one.state = "abandoned";
    const attempt = attemptOf(effect, fields.attempt);
    attempt.target = fields.target ?? "";
    attempt.continues = fields.continues ?? false;
    effect.pending = null;
    if (effect.drafts) effect.drafts = [];
    if (effect.hosted && !attempt.continues) effect.hosted = [];
  },
  attempt_abandoned(state, fields) {
    if (!isEffect(fields.key)) return;
    const attempt = attemptOf(effectOf(state, fields.key), fields.attempt);
    attempt.state = "abandoned";
    attempt.error = fields.error;
  },
  retry_scheduled(state, fields) {
    if (!isEffect(fields.key)) return;
    const effect = effectOf(state, fields.key);
    const wait = { delay: fields.delay, error: fields.error, attempt: fields.attempt, most: fields.max_retries };
    effect.waits.push(wait);
    effect.pending = wait;
    const attempt = effect.attempts.findLast((one) => one.number === fields.attempt);
    if (attempt) {
      attempt.wait = wait;
      attempt.error ??= fields.error;
      attempt.state = "abandoned";
    }
  },
  tool_started(state, fields) {
    const tool = toolOf(state, fields.key);
    tool.name = fields.name;
    tool.arguments = fields.arguments;
    tool.state = "running";
    attemptOf(tool, fields.attempt ?? 1);
  },
  tool_call_delta(state, fields) {
    const call = currentCall(state);
    if (!call) return;
    const draft = (call.drafts[fields.index ?? 0] ??= { name: "", arguments: "" });
    draft.name += fields.name ?? "";
    draft.arguments += fields.arguments ?? "";
  },
  hosted_tool_started(state, fields) {
    currentCall(state)?.hosted.push({ ...fields, finished: false });
  },
  hosted_tool_finished(state, fields) {
    const hosted = currentCall(state)?.hosted;
    if (!hosted) return;
    const at = hosted.findIndex((one) => !one.finished && one.id === fields.id && one.name === fields.name);
    const begun = hosted[at] ?? {};
    hosted[at < 0 ? hosted.length : at] = { ...fields, arguments: begun.arguments || fields.arguments, finished: true };
  },
  reply_replaced(state, fields) {
    callOf(state, fields.key).replaced = true;
  },
  breaker_changed(state, fields) {
    state.breakers.set(fields.target, fields);
  },
  from_agent(state, fields) {
    if (!fields.key) return; // a redacted reader is not told
    const tool = toolOf(state, fields.key);
    const name = (fields.chain ?? []).join(" \u203a ");
    let nested = tool.nested.find((one) => one.name === name);
    if (!nested) {
      nested = { name, state: emptySession(), items: 0 };
      tool.nested.push(nested);
    }
    nested.items += 1;
    const inner = fields.item ?? {};
    applyItem(nested.state, inner.name === "event"
      ? { type: "event", turn: placeOf(inner.fields.key).turn, event: inner.fields, isNested: true }
      : { type: "notice", ...inner });
    nested.state.records = [];
    nested.latest = inner.name === "event" ? inner.fields?.type ?? "" : inner.name;
    if (inner.name === "text_delta") nested.text = (nested.text ?? "") + (inner.fields?.text ?? "");
  },
};
