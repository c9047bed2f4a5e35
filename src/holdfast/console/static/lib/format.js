// Words for times, numbers and texts. Pure: the time is passed in.

const DIRECTION = /[\u202a-\u202e\u2066-\u2069]/g;
const CONTROL = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f]/g;

/** Show the characters that would change the order of a text or that nobody sees, as their codes. */
export function visible(text) {
  return String(text)
    .replace(DIRECTION, (letter) => `\u2039${codeOf(letter)}\u203a`)
    .replace(CONTROL, (letter) => `\u2039${codeOf(letter)}\u203a`);
}

function codeOf(letter) {
  return `U+${letter.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}`;
}

/** A duration, such as "0.42 s", "3 m 07 s" or "2 h 05 m". */
export function duration(seconds) {
  if (seconds === null || seconds === undefined || Number.isNaN(seconds)) return "";
  if (seconds < 0) return "0 s";
  if (seconds < 10) return `${seconds.toFixed(2)} s`;
  if (seconds < 60) return `${seconds.toFixed(1)} s`;
  const whole = Math.round(seconds);
  if (whole < 3600) return `${Math.floor(whole / 60)} m ${two(whole % 60)} s`;
  if (whole < 86400) return `${Math.floor(whole / 3600)} h ${two(Math.floor((whole % 3600) / 60))} m`;
  return `${Math.floor(whole / 86400)} d ${Math.floor((whole % 86400) / 3600)} h`;
}

function two(number) {
  return String(number).padStart(2, "0");
}

/** How long ago something was, in few letters: "now", "12 s", "5 m", "3 h", "6 d". */
export function ago(at, now) {
  const seconds = Math.max(0, now - at);
  if (seconds < 5) return "now";
  if (seconds < 60) return `${Math.floor(seconds)} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} m`;
  if (seconds < 86400) return `${Math.floor(seconds / 3600)} h`;
  return `${Math.floor(seconds / 86400)} d`;
}

/** A time of the day; with the day if it is not today. */
export function clock(at, now = at) {
  const date = new Date(at * 1000);
  const time = date.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", second: "2-digit" });
  if (date.toDateString() === new Date(now * 1000).toDateString()) return time;
  return `${date.toLocaleDateString([], { month: "short", day: "numeric" })}, ${time}`;
}

/** An amount of money in the unit of the service's prices: "0", "0.0034", "12.35". */
export function money(amount) {
  return String(Number(amount >= 1 ? amount.toFixed(2) : amount.toPrecision(2)));
}

/** A number of tokens: "840", "12.3k", "4.1M". */
export function count(number) {
  if (number < 1000) return String(number);
  if (number < 100000) return `${(number / 1000).toFixed(1)}k`;
  if (number < 1000000) return `${Math.round(number / 1000)}k`;
  return `${(number / 1000000).toFixed(1)}M`;
}

/** "1 turn", "2 turns". */
export function plural(number, word) {
  return `${number} ${word}${number === 1 ? "" : "s"}`;
}

/** A text in one line of at most some letters. */
export function oneLine(text, most = 120) {
  const flat = visible(String(text)).replace(/\s+/g, " ").trim();
  return flat.length > most ? `${flat.slice(0, most - 1)}\u2026` : flat;
}

/** JSON with spaces between the parts; a text that is not JSON as it is. */
export function prettyJson(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return String(text);
  }
}

/** Arguments in one line: `order: "A-1042", amount: 49.9`. */
export function briefArguments(text, most = 140) {
  try {
    const value = JSON.parse(text);
    if (value && typeof value === "object" && !Array.isArray(value)) {
      return oneLine(
        Object.entries(value).map(([name, one]) => `${name}: ${JSON.stringify(one)}`).join(", "), most,
      );
    }
  } catch {
    // shown as it is
  }
  return oneLine(text, most);
}

/** What is known of a wait before a retry, and of its cause. */
export function waitText(wait) {
  const told = wait.error?.retry_after;
  const cause = told === null || told === undefined
    ? "" : `, told ${Number(told.toFixed(1))} s by Retry-After`;
  return `waits ${Number(wait.delay.toFixed(1))} s${cause}`;
}
