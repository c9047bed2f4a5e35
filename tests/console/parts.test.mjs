// The pure parts of the console: Markdown, schemas, addresses, streams, differences, pages of runs.
import assert from "node:assert/strict";
import { test } from "node:test";
import { alignTurns, diffWords } from "../../src/holdfast/console/static/lib/diff.js";
import { foldItems } from "../../src/holdfast/console/static/lib/fold.js";
import { briefArguments, duration, money, visible, waitText } from "../../src/holdfast/console/static/lib/format.js";
import { parseInline, parseMarkdown } from "../../src/holdfast/console/static/lib/markdown.js";
import { address, parseRoute } from "../../src/holdfast/console/static/lib/routes.js";
import { applyChange, asksDiffer, fitsFilter, mergePages, stateOf, traceOf } from "../../src/holdfast/console/static/lib/runs.js";
import { judgeArguments } from "../../src/holdfast/console/static/lib/schema.js";
import { EventParser } from "../../src/holdfast/console/static/lib/sse.js";

const types = (text) => parseMarkdown(text).map((block) => block.type);

test("Markdown: blocks", () => {
  assert.deepEqual(types("# A\n\ntext\n\n- a\n- b\n\n1. c\n\n> d\n\n```py\ne\n```\n\n---\n\n|a|b|\n|-|-|\n|1|2|"),
    ["heading", "paragraph", "list", "list", "quote", "code", "rule", "table"]);
});

test("Markdown: a list in a list, and code in an item", () => {
  const [list] = parseMarkdown("- a\n  - b\n  - c\n- d\n\n  ```\n  code\n  ```");
  assert.equal(list.items.length, 2);
  assert.deepEqual(list.items[0].map((block) => block.type), ["paragraph", "list"]);
  assert.equal(list.items[1][1].text, "code");
});

test("Markdown: a fence that is not closed yet is code", () => {
  assert.deepEqual(parseMarkdown("```js\nlet a")[0], { type: "code", language: "js", text: "let a", open: true });
});

test("Markdown: HTML is text", () => {
  const source = "<img src=x onerror=alert(1)> <script>alert(1)</script>";
  assert.deepEqual(parseInline(source), [source]);
});

for (const wrong of ["javascript:alert(1)", "JaVaScRiPt:alert(1)", "data:text/html,x", "vbscript:x", "\u0001javascript:x", "//evil.example", "/relative", "file:///etc/passwd"]) {
  test(`Markdown: ${JSON.stringify(wrong)} is no link`, () => {
    assert.equal(JSON.stringify(parseInline(`[click](${wrong})`)).includes('"link"'), false);
    assert.equal(JSON.stringify(parseInline(`![click](${wrong})`)).includes('"link"'), false);
  });
}

test("Markdown: a link, a picture as a link, and a bare address without its full stop", () => {
  const [link, , picture, , bare, dot] = parseInline("[a](https://a.example) ![b](https://b.example/x.png) https://c.example.");
  assert.equal(link.address, "https://a.example");
  assert.equal(picture.isPicture, true);
  assert.equal(bare.address, "https://c.example");
  assert.equal(dot, ".");
});

test("Markdown: snake_case and 2 * 3 stay as they are", () => {
  assert.deepEqual(parseInline("a snake_case_name and 2 * 3 * 4"), ["a snake_case_name and 2 * 3 * 4"]);
});

const HOSTILE = ["*[", "**a ", "a``", "[a](", "_a", "> ", "- a\n  ", "|", "![", "~~", "\\", "`", "http://", "1. ", "#"];
for (const piece of HOSTILE) {
  test(`Markdown: ${JSON.stringify(piece)} 20,000 times takes a moment`, () => {
    const before = process.cpuUsage(); // not the clock: others may use this machine
    parseMarkdown(piece.repeat(20000));
    const used = process.cpuUsage(before);
    const milliseconds = (used.user + used.system) / 1000;
    assert.ok(milliseconds < 1500, `${milliseconds} ms`);
  });
}

test("characters that reorder or hide text are shown as codes; writing from right to left stays", () => {
  assert.equal(visible("a\u202eb\u2066c\u0007d"), "a\u2039U+202E\u203ab\u2039U+2066\u203ac\u2039U+0007\u203ad");
  assert.equal(visible("\u05e9\u05dc\u05d5\u05dd\n\t"), "\u05e9\u05dc\u05d5\u05dd\n\t");
});

const SCHEMA = {
  type: "object", required: ["order", "amount"], additionalProperties: false,
  properties: {
    order: { type: "string", minLength: 2 }, amount: { type: "number", minimum: 0, maximum: 100 },
    kind: { enum: ["a", "b"] }, note: { anyOf: [{ type: "string" }, { type: "null" }] },
    lines: { type: "array", items: { $ref: "#/$defs/line" }, maxItems: 2 },
  },
  $defs: { line: { type: "object", properties: { n: { type: "integer" } } } },
};

for (const [text, wanted] of [
  ['{"order": "A-1", "amount": 3}', ""],
  ['{"order": "A-1", "amount": 3, "note": null, "lines": [{"n": 1}]}', ""],
  ["{", "is not JSON"],
  ["[]", "must be an object"],
  ['{"order": "A-1"}', "amount is missing"],
  ['{"order": "A", "amount": 3}', "order must have at least 2 letters"],
  ['{"order": "A-1", "amount": "3"}', "amount must be a number"],
  ['{"order": "A-1", "amount": 101}', "amount must be at most 100"],
  ['{"order": "A-1", "amount": 3, "kind": "c"}', 'kind must be one of "a", "b"'],
  ['{"order": "A-1", "amount": 3, "other": 1}', "other is not an argument"],
  ['{"order": "A-1", "amount": 3, "note": 1}', "note fits none of 2 forms"],
  ['{"order": "A-1", "amount": 3, "lines": [{"n": 1.5}]}', "lines[0].n must be a whole number"],
  ['{"order": "A-1", "amount": 3, "lines": [{}, {}, {}]}', "lines must have at most 2 items"],
]) {
  test(`arguments ${text}: ${wanted || "fit"}`, () => {
    const said = judgeArguments(text, SCHEMA).problems.map((one) => `${one.path} ${one.problem}`.trim()).join("; ");
    if (wanted) assert.ok(said.startsWith(wanted), said);
    else assert.equal(said, "");
  });
}

test("addresses: any name of a session comes back", () => {
  for (const name of ["a/b", "..", "a?b#c", "%2F", "\u{1F986} duck", "a b"]) {
    assert.deepEqual(parseRoute(address(["runs", name, "timeline"], { turn: 2 })), { parts: ["runs", name, "timeline"], query: { turn: "2" } });
  }
  assert.deepEqual(parseRoute("#/runs/%zz").parts, ["runs", "%zz"]);
});

test("streams: events that come in pieces of any length", () => {
  const text = ": hello\n\nid: 1\nevent: text\ndata: {\"a\":\ndata: 1}\n\r\nid: 2\r\ndata: x\r\n\r\n: bye\n\n";
  for (let size = 1; size < 12; size += 1) {
    const parser = new EventParser();
    const found = [];
    for (let at = 0; at < text.length; at += size) found.push(...parser.feed(text.slice(at, at + size)));
    assert.deepEqual(found, [{ id: "1", type: "text", data: '{"a":\n1}' }, { id: "2", type: "message", data: "x" }]);
  }
});

test("differences: the words that differ", () => {
  const { left, right } = diffWords("refund 20 euros now", "refund 30 euros now");
  assert.deepEqual(left.filter((one) => !one.same).map((one) => one.text), ["20"]);
  assert.deepEqual(right.filter((one) => !one.same).map((one) => one.text), ["30"]);
  assert.equal(left.map((one) => one.text).join(""), "refund 20 euros now");
});

test("differences: equal turns are the same, and a turn that one lacks is not", () => {
  const opened = (turn, text) => ({ type: "event", turn, sequence: turn, position: String(turn), event: { type: "turn_opened", key: `t${turn}`, at: turn, message: { role: "user", parts: [{ type: "text", text }] } } });
  const rows = alignTurns(foldItems([opened(1, "a"), opened(2, "b")]), foldItems([opened(1, "a")]));
  assert.deepEqual(rows.map((one) => one.same), [true, false]);
});

test("pages: a fresh first page replaces its range and keeps what is older", () => {
  const run = (session, changed_at) => ({ session, changed_at });
  const known = [run("a", 9), run("gone", 8), run("b", 7), run("old", 1)];
  const page = { sessions: [run("b", 10), run("a", 9), run("c", 5)], next: "more" };
  assert.deepEqual(mergePages(known, page).map((one) => one.session), ["b", "a", "c", "old"]);
  assert.deepEqual(mergePages(known, { sessions: page.sessions }).map((one) => one.session), ["b", "a", "c"]);
});

const NO_FILTER = { q: "", agent: "", state: "", cost: "" };
const row = (session, changed_at, more = {}) => ({ session, changed_at, turn: 1, agent: "writer", turn_status: "completed", questions: [], ...more });
const names = (page) => page.entries.map((one) => one.session);

test("changes: a changed run takes its place, a new one is there, a deleted one is gone", () => {
  const page = { entries: [row("a", 9), row("b", 8), row("c", 7)], next: "", loaded: true };
  const change = { sessions: [row("c", 10, { turn_status: "running" }), row("new", 11)], deleted: [{ session: "a" }, { session: "unknown" }] };
  const after = applyChange(page, change, NO_FILTER);
  assert.deepEqual(names(after), ["new", "c", "b"]);
  assert.equal(after.entries[1].turn_status, "running");
});

test("changes: a queued first turn stands before all others, and equal times are in order of their names", () => {
  const page = { entries: [row("b", 9)], next: "", loaded: true };
  const change = { sessions: [row("a", 9), row("q", 1, { turn: 0, turn_status: "queued" })] };
  assert.deepEqual(names(applyChange(page, change, NO_FILTER)), ["q", "a", "b"]);
});

test("changes: an older row does not replace a newer one, as answers may overtake each other", () => {
  const page = { entries: [row("a", 9)], next: "", loaded: true };
  assert.deepEqual(applyChange(page, { sessions: [row("a", 8, { turn_status: "running" })] }, NO_FILTER).entries, page.entries);
});

test("changes: a run below the end of what was read is left to its own page", () => {
  const page = { entries: [row("a", 9), row("b", 8)], next: "more", loaded: true };
  assert.deepEqual(names(applyChange(page, { sessions: [row("old", 2), row("c", 8.5)] }, NO_FILTER)), ["a", "c", "b"]);
});

test("changes: a run that no longer fits the filter leaves the list, and one that fits comes", () => {
  const wanted = { ...NO_FILTER, state: "running" };
  const page = { entries: [row("a", 9, { turn_status: "running" })], next: "", loaded: true };
  const change = { sessions: [row("a", 10), row("b", 11, { turn_status: "running" }), row("c", 12)] };
  assert.deepEqual(names(applyChange(page, change, wanted)), ["b"]);
});

test("changes: of a search, what was found is brought up to date and keeps its order and its words", () => {
  const page = { entries: [row("a", 1, { found: "duck" }), row("b", 9, { found: "pond" })], next: "", loaded: true };
  const after = applyChange(page, { sessions: [row("a", 10, { turn_status: "running" }), row("c", 11)] }, { ...NO_FILTER, q: "d" });
  assert.deepEqual(names(after), ["a", "b"]);
  assert.deepEqual([after.entries[0].turn_status, after.entries[0].found], ["running", "duck"]);
});

test("changes: nothing is shown before the list was read", () => {
  const page = { entries: [], next: "", loaded: false };
  assert.equal(applyChange(page, { sessions: [row("a", 1)] }, NO_FILTER), page);
});

test("filters: agent, state and cost; a cost that is not known is not enough", () => {
  const run = row("a", 1, { turn_cost: 0.5 });
  assert.ok(fitsFilter(run, { ...NO_FILTER, agent: "writer", state: "completed", cost: "0.5" }));
  assert.ok(fitsFilter(run, { ...NO_FILTER, state: "in_doubt" }), "what is in doubt is found on the page");
  for (const wanted of [{ agent: "other" }, { state: "failed" }, { cost: "0.6" }]) assert.ok(!fitsFilter(run, { ...NO_FILTER, ...wanted }));
  assert.ok(!fitsFilter(row("b", 1), { ...NO_FILTER, cost: "0" }));
});

test("questions: they are read again only if a run has others than those that are known", () => {
  const known = [{ session: "a", key: "t1.q" }];
  const differs = (sessions, seesKeys = true, deleted = []) => asksDiffer(known, { sessions, deleted }, seesKeys);
  assert.ok(!differs([row("a", 1, { questions: ["t1.q"] }), row("b", 1)]));
  assert.ok(differs([row("a", 1)]), "it was answered");
  assert.ok(differs([row("b", 1, { questions: ["t1.q"] })]), "another asks");
  assert.ok(differs([row("a", 1, { questions: ["t2.q"] })]));
  assert.ok(differs([], true, [{ session: "a" }]));
  assert.ok(!differs([row("a", 1, { questions: ["[redacted]"] })], false), "a redacted reader sees how many");
  assert.ok(differs([row("a", 1, { questions: ["[redacted]", "[redacted]"] })], false));
});

test("states: what is in doubt comes before how the turn ended, but not before what it waits for", () => {
  assert.equal(stateOf({ turn_status: "completed", in_doubt: true }), "in_doubt");
  assert.equal(stateOf({ turn_status: "waiting", in_doubt: true }), "waiting");
  assert.equal(stateOf({ turn_status: "queued", in_doubt: true }), "queued");
  assert.equal(stateOf({ turn_status: "something new" }), "idle");
});

test("traces: only an address of the web is a link", () => {
  const found = (trace_url) => traceOf({ metadata: { trace_url } });
  assert.deepEqual(found("https://jaeger.example/trace/4bf9?a=b"), { url: "https://jaeger.example/trace/4bf9?a=b", host: "jaeger.example" });
  for (const given of ["javascript:alert(1)", " data:text/html,x", "//jaeger.example", "trace", "", 7, null, undefined]) assert.equal(found(given), null);
  assert.equal(traceOf({ metadata: null }), null);
});

test("words: durations, arguments, waits", () => {
  assert.deepEqual([0.123, 12, 187, 7500, 200000].map(duration), ["0.12 s", "12.0 s", "3 m 07 s", "2 h 05 m", "2 d 7 h"]);
  assert.equal(briefArguments('{"order":"A-1","n":2}'), 'order: "A-1", n: 2');
  assert.equal(briefArguments("{cut"), "{cut");
  assert.equal(waitText({ delay: 12, error: { retry_after: 12 } }), "waits 12 s, told 12 s by Retry-After");
  assert.equal(waitText({ delay: 2, error: {} }), "waits 2 s");
});

test("money has two digits that count, or two decimals", () => {
  assert.deepEqual([0, 0.003412, 0.5, 1, 12.345, 1234.5].map(money), ["0", "0.0034", "0.5", "1", "12.35", "1234.5"]);
});
