// What the notices of a run in progress add: attempts, announced waits, tools as they start. The journal
// does not have them, so nothing that must be true later may rest on them.
import { applyItem } from "./fold.js";
import { attemptOf, callOf, emptySession, toolOf } from "./session_state.js";

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
    const call = state.current ? state.calls.get(state.current) : null;
    if (!call) return;
    const draft = (call.drafts[fields.index ?? 0] ??= { name: "", arguments: "" });
    draft.name += fields.name ?? "";
    draft.arguments += fields.arguments ?? "";
  },
  reply_replaced(state, fields) {
    callOf(state, fields.key).replaced = true;
  },
  breaker_changed(state, fields) {
    state.breakers.set(fields.target, fields);
  },
  from_agent(state, fields) {
    const tool = toolOf(state, fields.key);
    const name = (fields.chain ?? []).join(" \u203a ");
    let nested = tool.nested.find((one) => one.name === name);
    if (!nested) {
      nested = { name, state: emptySession(), items: 0 };
      tool.nested.push(nested);
    }
    nested.items += 1;
    const inner = fields.item ?? {};
    if (inner.name !== "event") applyItem(nested.state, { type: "notice", ...inner });
    nested.latest = inner.name === "event" ? inner.fields?.type ?? "" : inner.name;
    if (inner.name === "text_delta") nested.text = (nested.text ?? "") + (inner.fields?.text ?? "");
  },
};
