// Waits: a little longer each time, and not longer than until the network is back.

const LONGEST = 30_000;

/** Wait some milliseconds; the wait ends at once when the network comes back. */
export function pause(milliseconds) {
  return new Promise((resolve) => {
    const timer = setTimeout(end, milliseconds);
    addEventListener("online", end);
    function end() {
      clearTimeout(timer);
      removeEventListener("online", end);
      resolve();
    }
  });
}

/** Return how long to wait before an attempt: 1, 2, 4, ... seconds, at most 30, each a little different. */
export function backOff(attempt) {
  return Math.min(1000 * 2 ** attempt, LONGEST) * (0.75 + Math.random() / 2);
}
