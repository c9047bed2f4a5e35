// Turns a turn into the rows of its timeline: what took how long, and what ran at the same time. Pure.
import { textOf } from "./fold.js";
import { duration, oneLine, waitText, briefArguments } from "./format.js";

/**
 * Return the rows of a turn, and its beginning and end.
 *
 * A row: `{kind, label, detail, from, to, tone, tokens, depth}`. Rows of the same time run in parallel.
 */
export function rowsOfTurn(turn, now) {
  const from = turn.openedAt || turn.iterations[0]?.call?.startedAt || 0;
  const rows = [];
  for (const step of turn.iterations) {
    if (step.call) addCall(rows, step.call, turn, now);
    for (const tool of step.tools) if (tool) addTool(rows, tool, step, now);
  }
  for (const question of turn.questions) if (!/\.tool\.\d+\./.test(question.key)) addQuestion(rows, question, now);
  for (const mark of turn.marks) {
    if (mark.kind === "resumed" && mark.at - mark.after > 1) {
      rows.push(row("gap", "gap", "nobody drove the turn", mark.after, mark.at, "doubt"));
    }
  }
  const to = Math.max(turn.closedAt || 0, ...rows.map((one) => one.to), from + 0.001);
  return { rows, from, to };
}

function row(kind, label, detail, from, to, tone, rest = {}) {
  return { kind, label, detail, from, to: Math.max(to, from), tone, tokens: "", depth: 0, ...rest };
}

function addCall(rows, call, turn, now) {
  const begun = call.startedAt ?? turn.openedAt;
  const end = call.endedAt ?? (turn.closedAt || now);
  const usage = call.reply?.usage;
  const lost = (call.lost?.input ?? 0) + (call.lost?.output ?? 0);
  addGap(rows, begun, call.downtime);
  const from = begun + Math.max(0, call.downtime);
  const tokens = [usage ? `${usage.input ?? 0} in, ${usage.output ?? 0} out` : "", lost ? `${lost} lost` : ""].filter(Boolean).join(", ");
  const calls = call.reply?.parts?.filter((part) => part.type === "tool_call").length ?? 0;
  const text = call.error ? call.error.safe : call.text.text || textOf(call.reply?.parts) || (calls ? `${calls} tool calls` : "");
  rows.push(row("model", `${call.by || "model"} ${placeText(call.key)}`, oneLine(text, 200), from, end,
    call.error ? "bad" : call.endedAt === null ? "live" : "model", { tokens, key: call.key }));
  for (const [at, one] of call.hosted.entries()) {
    const detail = [briefArguments(one.arguments || "{}", 120), oneLine(one.result ?? "", 120)].filter(Boolean).join(" \u2192 ");
    rows.push(row("hosted", one.name ?? "tool of the provider", detail, from, end, one.is_error ? "bad" : "faint",
      { depth: 1, isPoint: true, key: `${call.key}.hosted.${at}` }));
  }
  addAttempts(rows, call, from, end);
}

function addAttempts(rows, effect, from, end) {
  const shown = effect.attempts.filter((one) => one.error);
  shown.forEach((one, at) => {
    rows.push(row("attempt", `attempt ${one.number}`, oneLine(`${one.wait ? `${waitText(one.wait)}; ` : ""}${one.error.safe}`, 240),
      from, end, "warn", { depth: 1, isPoint: true, key: `${effect.key}.${at}` }));
    if (one.text) rows.push(row("withdrawn", "taken back", oneLine(one.text, 240), from, end, "faint", { depth: 1, isPoint: true }));
  });
  const unseen = effect.count - 1 - shown.length;
  if (unseen > 0) rows.push(row("attempt", `${unseen} failed`, "attempts before the one that counts", from, end, "warn", { depth: 1, isPoint: true }));
}

function addTool(rows, tool, step, now) {
  if (tool.state === "planned") return;
  const begun = tool.startedAt ?? step.begunAt ?? 0;
  const end = tool.endedAt ?? now;
  addGap(rows, begun, tool.downtime);
  const from = begun + Math.max(0, Math.min(tool.downtime, end - begun));
  const tones = { running: "live", waiting: "ask", done: "tool", error: "bad", in_doubt: "doubt" };
  rows.push(row("tool", tool.name, briefArguments(tool.arguments, 200), from, end, tones[tool.state], { depth: 1, key: tool.key }));
  for (const question of tool.questions) addQuestion(rows, question, now);
  addAttempts(rows, tool, from, end);
  for (const nested of tool.nested) addNested(rows, tool, nested, begun, now);
}

/** What an agent in a tool did. Its events reach only those who are there while it works. */
function addNested(rows, tool, nested, begun, now) {
  for (const turn of nested.state.turns.values()) {
    for (const one of rowsOfTurn(turn, tool.endedAt ?? now).rows) {
      const label = one.kind === "model" ? `${nested.name} ${one.label}` : one.label;
      const from = Math.max(one.from, begun); // its beginning may not have been seen
      rows.push({ ...one, label, from, to: Math.max(one.to, from), depth: one.depth + 2, key: `${tool.key} ${nested.name} ${one.key ?? rows.length}` });
    }
  }
}

function addQuestion(rows, question, now) {
  const end = question.answeredAt ?? now;
  const who = question.by ? `by ${question.by}` : question.why || "";
  const answer = question.answer?.type ?? (question.answeredAt === null ? "waits for an answer" : "answered");
  rows.push(row("question", "waited for a person", oneLine(`${answer} ${who}`, 200), question.askedAt, end,
    question.answeredAt === null ? "ask" : "calm", { depth: 2, key: question.key }));
}

function addGap(rows, from, seconds) {
  if (seconds > 0.05) rows.push(row("gap", "gap", `nobody drove it for ${duration(seconds)}: the process had ended`, from, from + seconds, "doubt"));
}

function placeText(key) {
  const found = /\.i(\d+)\./.exec(key);
  return found ? `#${Number(found[1]) + 1}` : "";
}
