// The fold of the console on recorded streams: live and from the journal, it shows the same.
import assert from "node:assert/strict";
import { readFileSync, readdirSync } from "node:fs";
import { test } from "node:test";
import { applyItem, emptySession, foldItems } from "../../src/holdfast/console/static/lib/fold.js";
import { footnotes } from "../../src/holdfast/console/static/lib/footnotes.js";
import { rowsOfTurn } from "../../src/holdfast/console/static/lib/spans.js";
import { GrowingText } from "../../src/holdfast/console/static/lib/text.js";

const FOLDER = new URL("recorded/", import.meta.url);
const recorded = Object.fromEntries(readdirSync(FOLDER).map((file) => [
  file.replace(".json", ""), JSON.parse(readFileSync(new URL(file, FOLDER), "utf-8")),
]));

/** What must not depend on how a reader came to it. */
function essence(session) {
  return [...session.turns.values()].map((turn) => ({
    message: turn.message, status: turn.status, text: turn.text, usage: turn.usage, lost: turn.lost,
    calls: turn.iterations.map((one) => [one.call?.text.text, one.call?.count]),
    tools: turn.iterations.flatMap((one) => one.tools.map((tool) => [tool.name, tool.state, tool.arguments, tool.result])),
    questions: turn.questions.map((one) => [one.key, one.answer, one.by, one.until]),
  }));
}

for (const [name, { live, saved }] of Object.entries(recorded)) {
  test(`${name}: live and saved items give the same session`, () => {
    assert.deepEqual(essence(foldItems(live)), essence(foldItems(saved)));
  });

  test(`${name}: the shown text is the text of the record`, () => {
    const session = foldItems(live);
    for (const item of live) {
      if (item.event?.type !== "model_replied") continue;
      const text = item.event.reply.parts.filter((part) => part.type === "text").map((part) => part.text).join("");
      assert.equal(session.calls.get(item.event.key).text.text, text);
    }
  });

  test(`${name}: before the record arrives, the streamed text is already the same`, () => {
    const session = emptySession();
    for (const item of live) {
      const key = item.event?.type === "model_replied" ? item.event.key : "";
      if (key && session.calls.get(key)?.text.text) {
        const text = item.event.reply.parts.filter((part) => part.type === "text").map((part) => part.text).join("");
        assert.equal(session.calls.get(key).text.text, text);
      }
      applyItem(session, item);
    }
  });

  test(`${name}: a reader that was away at any item and reads the journal then ends the same`, () => {
    const whole = essence(foldItems(saved));
    for (let at = 0; at < live.length; at += 3) {
      const session = foldItems(live.slice(0, at));
      const after = Number(session.position.split(".")[0]);
      const rest = saved.filter((item) => item.type === "status" || Number(item.position?.split(".")[0] ?? 0) > after);
      assert.deepEqual(essence(rest.reduce(applyItem, session)).map(withoutLost), whole.map(withoutLost));
    }
  });
}

function withoutLost(turn) {
  return { ...turn, calls: turn.calls.map(([text]) => text) };
}

test("an attempt that failed keeps its error, its wait and the text that was taken back", () => {
  const session = foldItems(recorded.retried.live);
  const call = session.calls.get("t1.i0.model");
  assert.equal(call.waits[0].error.retry_after, 1);
  assert.equal(call.waits[0].delay >= 1, true);
  assert.equal(call.attempts.filter((one) => one.error).length, 2);
  assert.equal(call.withdrawn.length, 1);
  assert.match(call.withdrawn[0].text, /^Zw\u00f6lf/);
});

test("tools of one reply lie side by side in the timeline", () => {
  const turn = foldItems(recorded.tools.saved).turns.get(1);
  const tools = rowsOfTurn(turn, 0).rows.filter((row) => row.kind === "tool");
  assert.equal(tools.length, 2);
  assert.ok(tools[0].to > tools[1].from && tools[1].to > tools[0].from, "they overlap");
});

test("an answer says who gave it, and what was edited", () => {
  const turn = foldItems(recorded.approved.saved).turns.get(1);
  assert.equal(turn.questions[0].by, "ann");
  assert.deepEqual(turn.questions[0].answer.arguments, { amount: 2 });
  assert.equal(turn.iterations[0].tools[0].arguments, '{"amount":2}', "as it ran");
});

test("a failed turn has its error", () => {
  const turn = foldItems(recorded.failed.saved).turns.get(1);
  assert.equal(turn.status, "failed");
  assert.ok(turn.error.safe);
});

test("a write that was under way when a process died is in doubt, and the gap is shown", () => {
  const key = "t1.i0.tool.0";
  const event = (sequence, body) => ({ type: "event", position: String(sequence), sequence, turn: 1, event: body });
  const session = foldItems([
    event(1, { type: "turn_opened", key: "t1", at: 100, message: { role: "user", parts: [] } }),
    event(2, { type: "model_replied", key: "t1.i0.model", at: 101, reply: { parts: [{ type: "tool_call", id: "c", name: "pay", arguments: "{}" }] } }),
    event(3, { type: "tools_begun", key: "t1.i0.begun", at: 101 }),
    event(4, { type: "tool_finished", key, at: 160, downtime: 55, result: { call_id: "c", name: "pay", content: [], is_error: true, in_doubt: true }, error: { category: "unknown", safe: "?", code: "in_doubt" } }),
  ]);
  assert.equal(session.tools.get(key).state, "in_doubt");
  assert.deepEqual(session.turns.get(1).inDoubt, [key]);
  const gap = rowsOfTurn(session.turns.get(1), 160).rows.find((row) => row.kind === "gap");
  assert.equal(gap.to - gap.from, 55);
});

test("a turn that opens is running, unless the service has said more of it", () => {
  const opened = (turn) => ({ type: "event", position: String(turn), sequence: turn, turn, event: { type: "turn_opened", key: `t${turn}`, at: 1, message: { role: "user", parts: [] } } });
  const status = { type: "status", position: "0", turn: 1, status: "open", questions: [] };
  assert.equal(foldItems([status, opened(1)]).last.status, "open");
  assert.equal(foldItems([status, opened(1), opened(2)]).last.status, "running");
});

test("offsets count characters and not UTF-16 units", () => {
  const text = new GrowingText();
  text.put(0, "\u{1F986}\u{1F986}");
  text.put(2, "ab");
  assert.equal(text.text, "\u{1F986}\u{1F986}ab");
  text.put(1, "c");
  assert.equal(text.text, "\u{1F986}c");
  assert.equal(text.length, 2);
});

test("5,000 events are folded in a moment", () => {
  const items = [];
  const event = (turn, body) => items.push({ type: "event", position: String(items.length + 1), sequence: items.length + 1, turn, event: { at: items.length, ...body } });
  for (let turn = 1; items.length < 5000; turn += 1) {
    event(turn, { type: "turn_opened", key: `t${turn}`, message: { role: "user", parts: [{ type: "text", text: "Go on." }] } });
    for (let step = 0; step < 3; step += 1) event(turn, { type: "model_replied", key: `t${turn}.i${step}.model`, reply: { parts: [{ type: "text", text: "x".repeat(500) }] } });
    event(turn, { type: "turn_closed", key: `t${turn}.closed`, status: "completed" });
  }
  const before = process.cpuUsage(); // not the clock: others may use this machine
  assert.equal(foldItems(items).records.length, 5000);
  const used = process.cpuUsage(before);
  const milliseconds = (used.user + used.system) / 1000;
  console.log(`# 5,000 events: ${milliseconds.toFixed(1)} ms`);
  assert.ok(milliseconds < 500, `${milliseconds} ms`);
});

const SEARCH = { id: "s1", name: "web_search", arguments: '{"query":"bridges"}', result: "https://porto.pt", is_error: false, finished: true, start: 0 };
const CITED = { url: "https://porto.pt", title: "Porto", cited_text: "", start: 3, end: 14 };

function searched(...before) {
  const reply = { parts: [{ type: "opaque", wire: "x", data: {} }, { type: "text", text: "\ud83e\udd86: six bridges." }] };
  return foldItems([
    { type: "event", turn: 1, event: { type: "turn_opened", key: "t1", at: 1, message: null } },
    { type: "notice", name: "attempt_started", fields: { key: "t1.i0.model", attempt: 1 } },
    { type: "notice", name: "hosted_tool_started", fields: { id: "s1", name: "web_search", arguments: SEARCH.arguments } },
    ...before,
    { type: "event", turn: 1, hosted: [SEARCH], citations: [CITED], event: { type: "model_replied", key: "t1.i0.model", at: 3, reply } },
  ]);
}

test("a call that the provider runs is shown while it runs, and as the record has it", () => {
  const items = [
    { type: "notice", name: "attempt_started", fields: { key: "t1.i0.model", attempt: 1 } },
    { type: "notice", name: "hosted_tool_started", fields: { id: "s1", name: "web_search", arguments: "{}" } },
  ];
  assert.deepEqual(foldItems(items).calls.get("t1.i0.model").hosted.map((one) => [one.name, one.finished]), [["web_search", false]]);
  const ended = { type: "notice", name: "hosted_tool_finished", fields: { id: "s1", name: "web_search", arguments: "", result: "found", is_error: false } };
  assert.deepEqual(foldItems([...items, ended]).calls.get("t1.i0.model").hosted.map((one) => [one.arguments, one.result]), [["{}", "found"]]);
  const again = { type: "notice", name: "attempt_started", fields: { key: "t1.i0.model", attempt: 2 } };
  assert.deepEqual(foldItems([...items, again]).calls.get("t1.i0.model").hosted, []);
  for (const session of [searched(), searched(ended)]) {
    const call = session.calls.get("t1.i0.model");
    assert.deepEqual(call.hosted, [SEARCH]);
    const row = rowsOfTurn(session.turns.get(1), 9).rows.find((one) => one.kind === "hosted");
    assert.deepEqual([row.label, row.detail, row.depth], ["web_search", 'query: "bridges" \u2192 https://porto.pt', 1]);
  }
});

test("sources are footnotes with the words that rest on them", () => {
  const call = searched().calls.get("t1.i0.model");
  const twice = [...call.citations, { ...CITED, start: 0, end: 1 }, { url: "javascript:alert(1)", title: "", start: 0, end: 0 }];
  assert.deepEqual(footnotes(call.text.text, twice), [
    { url: "https://porto.pt", title: "Porto", isLink: true, cited: ["six bridges", "\ud83e\udd86"] },
    { url: "javascript:alert(1)", title: "", isLink: false, cited: [] },
  ]);
});

test("what an agent in a tool did has rows below its tool", () => {
  const inner = (at, event) => ({ type: "notice", name: "from_agent", fields: { key: "t1.i0.tool.0", chain: ["finder"], item: { name: "event", fields: { at, ...event } } } });
  const session = foldItems([
    { type: "event", turn: 1, event: { type: "turn_opened", key: "t1", at: 1, message: null } },
    { type: "notice", name: "tool_started", fields: { key: "t1.i0.tool.0", name: "finder", arguments: "{}", attempt: 1 } },
    inner(2, { type: "turn_opened", key: "t1", message: null }),
    { type: "notice", name: "from_agent", fields: { key: "t1.i0.tool.0", chain: ["finder"], item: { name: "attempt_started", fields: { key: "t1.i0.model", attempt: 1 } } } },
    { type: "notice", name: "from_agent", fields: { key: "t1.i0.tool.0", chain: ["finder"], item: { name: "hosted_tool_started", fields: { id: "s", name: "web_search", arguments: "{}" } } } },
    inner(4, { type: "model_replied", key: "t1.i0.model", reply: { parts: [{ type: "text", text: "Found." }] } }),
    inner(5, { type: "turn_closed", key: "t1.closed", status: "completed" }),
    { type: "event", turn: 1, event: { type: "tool_finished", key: "t1.i0.tool.0", at: 6, result: { name: "finder", content: [] } } },
  ]);
  const rows = rowsOfTurn(session.turns.get(1), 9).rows.filter((one) => one.label.startsWith("finder model"));
  assert.deepEqual(rows.map((one) => [one.label, one.detail, one.from, one.to, one.depth]), [["finder model #1", "Found.", 2, 4, 2]]);
  assert.ok(rowsOfTurn(session.turns.get(1), 9).rows.some((one) => one.label === "web_search" && one.depth === 3));
  assert.equal(new Set(rowsOfTurn(session.turns.get(1), 9).rows.map((one) => one.key)).size, rowsOfTurn(session.turns.get(1), 9).rows.length);
});

test("an agent in a tool whose beginning was not seen begins with its tool", () => {
  const reply = { type: "model_replied", key: "t1.i0.model", at: 5, reply: { parts: [] } };
  const session = foldItems([
    { type: "event", turn: 1, event: { type: "turn_opened", key: "t1", at: 1, message: null } },
    { type: "event", turn: 1, event: { type: "tools_begun", key: "t1.i0.begun", at: 3 } },
    { type: "notice", name: "tool_started", fields: { key: "t1.i0.tool.0", name: "finder", arguments: "{}", attempt: 1 } },
    { type: "notice", name: "from_agent", fields: { key: "t1.i0.tool.0", chain: ["finder"], item: { name: "event", fields: reply } } },
  ]);
  const [row] = rowsOfTurn(session.turns.get(1), 9).rows.filter((one) => one.label.startsWith("finder model"));
  assert.deepEqual([row.from, row.to], [3, 5]);
});

test("a redacted reader is not told what an agent in a tool does", () => {
  assert.deepEqual(foldItems([{ type: "notice", name: "from_agent", fields: {} }]).tools.size, 0);
});

test("withheld results are a note of the turn, and the tokens of the refused request are lost", () => {
  const { saved } = recorded.tools;
  const at = saved.findIndex((item) => item.event?.type === "model_replied" && item.event.key.includes(".i1."));
  const event = {
    type: "results_withheld", key: "t1.i1.withheld", at: saved[at].event.at, tools: ["weather"],
    error: { category: "content_filtered", safe: "refused" }, lost: { input: 7 },
  };
  const session = foldItems([...saved.slice(0, at), { ...saved[at], event }, ...saved.slice(at)]);
  const turn = session.turns.get(saved[at].turn);
  assert.deepEqual(turn.marks.filter((mark) => mark.kind === "withheld").map((mark) => mark.tools), [["weather"]]);
  assert.equal(turn.lost.input, foldItems(saved).turns.get(saved[at].turn).lost.input + 7);
});

const TURNS = new URL("../golden/turns/", import.meta.url);
const turns = readFileSync(new URL("turns.jsonl", TURNS), "utf-8").split("\n").filter(Boolean).map((line) => JSON.parse(line));
const histories = Object.fromEntries(readFileSync(new URL("vercel.txt", TURNS), "utf-8").split("== ").map((block) => block.split("\n"))
  .filter(([head]) => head.endsWith(", history")).map(([head, ...lines]) => [head.split(",")[0], JSON.parse(lines[1])]));

/** The console does not show the words with which a model declines. */
const OWN_TEXTS = { refusal: "" };

for (const { name, items } of turns) {
  test(`${name}: the console shows the texts and the results of tools that other protocols send`, () => {
    const parts = histories[name].parts;
    for (const seen of [items, items.filter((item) => ["event", "withdrawn"].includes(item.type))]) {
      const [turn] = foldItems(seen).turns.values();
      const iterations = turn.iterations;
      const texts = parts.filter((part) => part.type === "text").map((part) => part.text);
      const shown = iterations.map((one) => one.call?.text.text ?? "").join("");
      assert.equal(name === "stopped" ? turn.text : shown, OWN_TEXTS[name] ?? texts.join(""));
      const tools = iterations.flatMap((one) => one.tools);
      const calls = parts.filter((part) => /\.tool\.\d+$/.test(part.toolCallId ?? ""));
      assert.deepEqual(tools.map((tool) => tool.key), calls.map((part) => part.toolCallId));
    }
  });
}
