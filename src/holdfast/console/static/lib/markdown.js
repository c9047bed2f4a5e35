// Parses Markdown into plain objects. There is no HTML: a tag is text like any other. Pure, and linear in
// the length of the text.

const DEEPEST = 6;
const SAFE_LINK = /^(https?:\/\/|mailto:)/i;

/** Return the blocks of a text. */
export function parseMarkdown(text, depth = 0) {
  const lines = String(text).replace(/\r\n?/g, "\n").split("\n");
  const blocks = [];
  let at = 0;
  while (at < lines.length) {
    if (!lines[at].trim()) { at += 1; continue; }
    const [block, next] = readBlock(lines, at, depth);
    blocks.push(block);
    at = next;
  }
  return blocks;
}

function readBlock(lines, at, depth) {
  const line = lines[at];
  const fence = /^ {0,3}(```+|~~~+)\s*([\w+#.-]*)/.exec(line);
  if (fence) return readCode(lines, at, fence);
  const heading = /^ {0,3}(#{1,6})\s+(.*?)\s*#*\s*$/.exec(line);
  if (heading) return [{ type: "heading", level: heading[1].length, inline: parseInline(heading[2]) }, at + 1];
  if (/^ {0,3}([-*_])( *\1){2,} *$/.test(line)) return [{ type: "rule" }, at + 1];
  if (depth < DEEPEST && /^ {0,3}>/.test(line)) return readQuote(lines, at, depth);
  if (depth < DEEPEST && listMark(line)) return readList(lines, at, depth);
  if (isTableAt(lines, at)) return readTable(lines, at);
  return readParagraph(lines, at, depth);
}

function readCode(lines, at, fence) {
  const end = fence[1];
  const body = [];
  let next = at + 1;
  while (next < lines.length && !(lines[next].trim().startsWith(end) && !lines[next].trim().slice(end.length).trim())) {
    body.push(lines[next]);
    next += 1;
  }
  return [{ type: "code", language: fence[2], text: body.join("\n"), open: next >= lines.length }, next + 1];
}

function readQuote(lines, at, depth) {
  const body = [];
  let next = at;
  while (next < lines.length && /^ {0,3}>/.test(lines[next])) {
    body.push(lines[next].replace(/^ {0,3}> ?/, ""));
    next += 1;
  }
  return [{ type: "quote", blocks: parseMarkdown(body.join("\n"), depth + 1) }, next];
}

function listMark(line) {
  const found = /^( {0,3})([-*+]|\d{1,9}[.)])( +)(?=\S)/.exec(line);
  if (!found || /^ {0,3}([-*_])( *\1){2,} *$/.test(line)) return null;
  return { ordered: /\d/.test(found[2]), start: Number.parseInt(found[2], 10) || 1, width: found[0].length };
}

function readList(lines, at, depth) {
  const first = listMark(lines[at]);
  const items = [];
  let next = at;
  while (next < lines.length) {
    const mark = listMark(lines[next]);
    if (!mark || mark.ordered !== first.ordered) break;
    const body = [lines[next].slice(mark.width)];
    next += 1;
    while (next < lines.length && belongsToItem(lines, next, mark.width)) {
      body.push(lines[next].slice(Math.min(mark.width, indentOf(lines[next]))));
      next += 1;
    }
    items.push(parseMarkdown(body.join("\n"), depth + 1));
    if (next < lines.length && !lines[next].trim() && listMark(lines[next + 1] ?? "")) next += 1;
  }
  return [{ type: "list", ordered: first.ordered, start: first.start, items }, next];
}

function belongsToItem(lines, at, width) {
  const line = lines[at];
  if (!line.trim()) return at + 1 < lines.length && indentOf(lines[at + 1]) >= width && lines[at + 1].trim() !== "";
  if (indentOf(line) >= 2) return true;
  return !listMark(line) && !/^ {0,3}(#{1,6}\s|>|```|~~~)/.test(line) && lines[at - 1].trim() !== "";
}

function indentOf(line) {
  return line.length - line.trimStart().length;
}

function isTableAt(lines, at) {
  return lines[at].includes("|") && at + 1 < lines.length
    && /^ *\|?( *:?-{1,}:? *\|)+ *(:?-{1,}:? *)?\|? *$/.test(lines[at + 1]) && lines[at + 1].includes("-");
}

function readTable(lines, at) {
  const head = cellsOf(lines[at]);
  const rows = [];
  let next = at + 2;
  while (next < lines.length && lines[next].includes("|") && lines[next].trim()) {
    rows.push(cellsOf(lines[next]).map(parseInline));
    next += 1;
  }
  return [{ type: "table", head: head.map(parseInline), rows }, next];
}

function cellsOf(line) {
  const inner = line.trim().replace(/^\|/, "").replace(/\|$/, "");
  return inner.split(/(?<!\\)\|/).map((cell) => cell.trim().replaceAll("\\|", "|"));
}

function readParagraph(lines, at, depth) {
  const body = [lines[at]];
  let next = at + 1;
  while (next < lines.length && lines[next].trim() && !startsBlock(lines, next, depth)) {
    body.push(lines[next]);
    next += 1;
  }
  return [{ type: "paragraph", inline: parseInline(body.map((line) => line.trimStart()).join("\n")) }, next];
}

function startsBlock(lines, at, depth) {
  return /^ {0,3}(#{1,6}\s|>|```|~~~)/.test(lines[at]) || (depth < DEEPEST && listMark(lines[at]) !== null)
    || isTableAt(lines, at);
}

/** Return the pieces of a line: texts, and `{type, ...}` for code, strong, emphasis, strike and links. */
export function parseInline(text, depth = 0) {
  const absent = new Map();
  const pieces = [];
  let plain = "";
  let at = 0;
  const put = (piece) => {
    if (plain) pieces.push(plain);
    plain = "";
    pieces.push(piece);
  };
  while (at < text.length) {
    const found = depth < DEEPEST ? readInline(text, at, absent, depth) : null;
    if (found) {
      if (typeof found.piece === "string") plain += found.piece;
      else put(found.piece);
      at = found.end;
    } else {
      plain += text[at];
      at += 1;
    }
  }
  if (plain) pieces.push(plain);
  return pieces;
}

function readInline(text, at, absent, depth) {
  const letter = text[at];
  if (letter === "\\" && /[\\`*_~[\]()#+.!|>-]/.test(text[at + 1] ?? "")) return { piece: text[at + 1], end: at + 2 };
  if (letter === "`") return readCodeSpan(text, at, absent);
  if (letter === "[") return readLink(text, at, absent, depth);
  if (letter === "!" && text[at + 1] === "[") return readLink(text, at + 1, absent, depth, true);
  if (letter === "h" && /^https?:\/\//.test(text.slice(at, at + 8)) && !/\w/.test(text[at - 1] ?? "")) return readAddress(text, at);
  if (letter === "*" || letter === "_" || letter === "~") return readMarked(text, at, absent, depth);
  return null;
}

/** Find a mark after a place; remember that there is none, so that the search stays linear. */
function findMark(text, mark, from, absent) {
  if (absent.has(mark) && from >= absent.get(mark)) return -1;
  const found = text.indexOf(mark, from);
  if (found < 0) absent.set(mark, Math.min(from, absent.get(mark) ?? Infinity));
  return found;
}

function readCodeSpan(text, at, absent) {
  let width = 1;
  while (text[at + width] === "`") width += 1;
  const mark = "`".repeat(Math.min(width, 8));
  const end = findMark(text, mark, at + width, absent);
  if (end < 0) return { piece: text.slice(at, at + width), end: at + width };
  return { piece: { type: "code", text: text.slice(at + width, end) }, end: end + mark.length };
}

function readLink(text, at, absent, depth, isPicture = false) {
  const middle = findMark(text, "](", at + 1, absent);
  if (middle < 0 || middle - at > 2000) return null;
  const end = text.indexOf(")", middle + 2);
  if (end < 0 || end - middle > 2000) return null;
  const address = text.slice(middle + 2, end).trim().split(/\s/)[0];
  const label = text.slice(at + 1, middle);
  if (label.includes("[")) return null;
  if (!SAFE_LINK.test(address)) return null;
  const shown = label ? parseInline(label, depth + 1) : [address];
  return { piece: { type: "link", address, inline: shown, isPicture }, end: end + 1 };
}

function readAddress(text, at) {
  let end = at;
  while (end < text.length && !/[\s<>"'`\u0000-\u001f]/.test(text[end])) end += 1;
  while (end > at && /[.,;:!?)\]*_~]/.test(text[end - 1])) end -= 1;
  const address = text.slice(at, end);
  return { piece: { type: "link", address, inline: [address], isPicture: false }, end };
}

const MARKED = { "**": "strong", "__": "strong", "~~": "strike", "*": "emphasis", "_": "emphasis" };

function readMarked(text, at, absent, depth) {
  const double = text.slice(at, at + 2);
  const mark = double in MARKED ? double : text[at];
  if (!(mark in MARKED)) return null;
  const start = at + mark.length;
  if (!text[start] || /\s/.test(text[start])) return { piece: mark, end: start };
  if (mark[0] === "_" && /\w/.test(text[at - 1] ?? "")) return { piece: mark, end: start };
  const end = findMark(text, mark, start + 1, absent);
  if (end < 0 || end - start > 5000 || /\s/.test(text[end - 1])) return { piece: mark, end: start };
  if (mark[0] === "_" && /\w/.test(text[end + mark.length] ?? "")) return { piece: mark, end: start };
  return { piece: { type: MARKED[mark], inline: parseInline(text.slice(start, end), depth + 1) }, end: end + mark.length };
}
