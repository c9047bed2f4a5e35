// The one stream of a page that says what has changed. A hidden page has none; where the service refuses it,
// the lists are read from time to time.
import { atMostEvery, signal, whileSeen } from "./dom.js";
import { followChanges } from "./api.js";

const SLOW = 30; // seconds between two readings without the stream
const REST = 5; // seconds between two readings while more changes than is told

/** Grow when something of a kind has changed. */
export const changed = { sessions: signal(0), queue: signal(0), endpoints: signal(0) };

/** Grows when anything may have changed: the stream was opened, or is not to be had and time went by. */
export const stale = signal(0);

/** Whether the stream is open, so that whatever changes is told. */
export const isFollowing = signal(false);

/**
 * Follow the changes while the page is seen.
 *
 * @param onItem called with each change
 * @param onEnd called with the error that ends it
 * @param stop ends it
 */
export function watchChanges({ onItem, onEnd }, stop) {
  whileSeen((seen) => {
    let known = "";
    const timer = setInterval(() => { if (known !== "live") stale.value += 1; }, SLOW * 1000);
    seen.addEventListener("abort", () => {
      clearInterval(timer);
      isFollowing.value = false;
    }, { once: true });
    const reload = atMostEvery(REST, () => { stale.value += 1; });
    followChanges({
      onItem: (item) => {
        if (item.type in changed) changed[item.type].value += 1;
        if (item.type === "list") reload();
        else onItem(item);
      },
      onState: (state) => {
        if (state === "live" || !known) stale.value += 1;
        // A service that only begins anew is back by then; otherwise the reading says that it is away.
        else if (known === "live") setTimeout(() => { if (known !== "live" && !seen.aborted) stale.value += 1; }, 1000);
        known = state;
        isFollowing.value = state === "live";
        if (state instanceof Error) onEnd(state);
      },
    }, seen);
  }, stop);
}
