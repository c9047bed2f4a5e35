// Reads a path of the API while a view is shown, and again when it is said to have changed.
import { atMostEvery, effect, useEffect, useRef, useState, whileSeen } from "./dom.js";
import { ApiError, get } from "./api.js";
import { stale } from "./changes.js";

/**
 * What the service answers: `{value, error, again}`. After an act, `again()` asks at once.
 *
 * @param path the path; "" asks nothing
 * @param query the query
 * @param options.on signals that change when the answer may be another one
 * @param options.when a value that is another one when the answer may be
 * @param options.rest the seconds between two requests, however often it changes
 * @param options.every the seconds after which it is read in any case, for what no stream tells; 0 for never
 */
export function useReading(path, query = {}, { on = [], when = "", rest = 1, every = 0 } = {}) {
  const [found, setFound] = useState({ value: null, error: "" });
  const [asked, setAsked] = useState(0);
  const soon = useRef(() => {});
  useEffect(() => {
    if (!path) return undefined;
    const stop = new AbortController();
    const read = async (signal) => {
      try {
        const value = await get(path, query, signal);
        if (!signal.aborted) setFound({ value, error: "" });
      } catch (error) {
        if (signal.aborted) return;
        setFound((before) => ({ ...before, error: error instanceof ApiError && error.status === 404 ? "This service does not tell." : error.message }));
      }
    };
    whileSeen((signal) => {
      const again = atMostEvery(rest, () => { if (!signal.aborted) read(signal); });
      const end = effect(() => {
        for (const source of [stale, ...on]) source.value;
        again();
      });
      const timer = every ? setInterval(again, every * 1000) : 0;
      soon.current = again;
      signal.addEventListener("abort", () => {
        end();
        clearInterval(timer);
      }, { once: true });
    }, stop.signal);
    return () => stop.abort();
  }, [path, JSON.stringify(query), asked]);
  useEffect(() => soon.current(), [when]);
  return { ...found, again: () => setAsked((before) => before + 1) };
}
