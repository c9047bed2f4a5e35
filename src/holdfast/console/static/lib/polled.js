// Reads a path of the API again and again while a view is shown.
import { useEffect, useState } from "./dom.js";
import { ApiError, get } from "./api.js";

const PAUSE = 2000;

/**
 * What the service answers, at once and every two seconds: `{value, error, again}`. After an act, `again()` asks at once.
 *
 * @param path the path; "" asks nothing
 * @param query the query
 */
export function usePolled(path, query = {}) {
  const [found, setFound] = useState({ value: null, error: "" });
  const [asked, setAsked] = useState(0);
  useEffect(() => {
    if (!path) return undefined;
    const stop = new AbortController();
    let timer = 0;
    const read = async () => {
      try {
        if (document.visibilityState === "visible") setFound({ value: await get(path, query, stop.signal), error: "" });
      } catch (error) {
        if (stop.signal.aborted) return;
        setFound((before) => ({ ...before, error: error instanceof ApiError && error.status === 404 ? "This service does not tell." : error.message }));
      }
      timer = setTimeout(read, PAUSE);
    };
    read();
    return () => {
      stop.abort();
      clearTimeout(timer);
    };
  }, [path, JSON.stringify(query), asked]);
  return { ...found, again: () => setAsked((before) => before + 1) };
}
