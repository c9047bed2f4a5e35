// Compares two texts word by word, and two sessions turn by turn. Pure.

const MOST_WORDS = 1500;

/** Return the pieces of both texts: `{left: [{text, same}], right: [...]}`. */
export function diffWords(left, right) {
  if (left === right) return { left: [{ text: left, same: true }], right: [{ text: right, same: true }] };
  const a = left.match(/\s+|\w+|[^\s\w]/g) ?? [];
  const b = right.match(/\s+|\w+|[^\s\w]/g) ?? [];
  if (a.length > MOST_WORDS || b.length > MOST_WORDS) {
    return { left: [{ text: left, same: false }], right: [{ text: right, same: false }] };
  }
  const { inA, inB } = commonWords(a, b);
  return { left: joinPieces(a, inA), right: joinPieces(b, inB) };
}

function commonWords(a, b) {
  const width = b.length + 1;
  const lengths = new Uint16Array((a.length + 1) * width);
  for (let i = a.length - 1; i >= 0; i -= 1) {
    for (let j = b.length - 1; j >= 0; j -= 1) {
      lengths[i * width + j] = a[i] === b[j]
        ? lengths[(i + 1) * width + j + 1] + 1
        : Math.max(lengths[(i + 1) * width + j], lengths[i * width + j + 1]);
    }
  }
  const inA = new Set();
  const inB = new Set();
  let i = 0;
  let j = 0;
  while (i < a.length && j < b.length) {
    if (a[i] === b[j]) {
      inA.add(i);
      inB.add(j);
      i += 1;
      j += 1;
    } else if (lengths[(i + 1) * width + j] >= lengths[i * width + j + 1]) i += 1;
    else j += 1;
  }
  return { inA, inB };
}

function joinPieces(words, common) {
  const pieces = [];
  words.forEach((text, index) => {
    const same = common.has(index);
    const last = pieces.at(-1);
    if (last && last.same === same) last.text += text;
    else pieces.push({ text, same });
  });
  return pieces;
}

/** Return the turns of two sessions side by side: `[{number, left, right, same}]`. */
export function alignTurns(left, right) {
  const numbers = [...new Set([...left.turns.keys(), ...right.turns.keys()])].sort((a, b) => a - b);
  return numbers.map((number) => {
    const a = left.turns.get(number) ?? null;
    const b = right.turns.get(number) ?? null;
    return { number, left: a, right: b, same: a !== null && b !== null && fingerprint(a) === fingerprint(b) };
  });
}

function fingerprint(turn) {
  return JSON.stringify([turn.message, turn.status, turn.text, stepsOf(turn)]);
}

/** The tools of a turn, in order: name, arguments and result. */
export function stepsOf(turn) {
  return turn.iterations.flatMap((one) => one.tools.filter(Boolean).map((tool) => ({
    name: tool.name,
    arguments: tool.arguments,
    result: (tool.result?.content ?? []).map((part) => part.text ?? "").join(""),
    state: tool.state,
  })));
}
