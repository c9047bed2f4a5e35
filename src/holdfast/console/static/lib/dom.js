// The building blocks of every view: elements as templates, hooks, and signals that redraw.
import { h, render, Fragment } from "../vendor/preact.mjs";
import {
  useCallback, useEffect, useErrorBoundary, useId, useLayoutEffect, useMemo, useRef, useState,
} from "../vendor/hooks.mjs";
import htm from "../vendor/htm.mjs";
import { batch, computed, effect, signal } from "../vendor/signals-core.mjs";

export const html = htm.bind(h);
export {
  batch, computed, effect, Fragment, render, signal,
  useCallback, useEffect, useErrorBoundary, useId, useLayoutEffect, useMemo, useRef, useState,
};

/** Return the value of a signal, and draw the component again when it changes. */
export function useSignal(source) {
  const [, redraw] = useState(0);
  const seen = useRef(undefined);
  seen.current = source.peek();
  useLayoutEffect(() => effect(() => {
    if (source.value !== seen.current) redraw((count) => count + 1);
  }), [source]);
  return seen.current;
}

/** Return the time in seconds, drawn again after each pause. */
export function useNow(seconds = 1, enabled = true) {
  const [now, setNow] = useState(() => Date.now() / 1000);
  useEffect(() => {
    if (!enabled) return undefined;
    const timer = setInterval(() => setNow(Date.now() / 1000), seconds * 1000);
    return () => clearInterval(timer);
  }, [seconds, enabled]);
  return enabled ? now : Date.now() / 1000;
}

/** Return whether a media query fits, and draw the component again when that changes. */
export function useMedia(query) {
  const media = useMemo(() => matchMedia(query), [query]);
  const [fits, setFits] = useState(media.matches);
  useEffect(() => {
    const change = () => setFits(media.matches);
    media.addEventListener("change", change);
    return () => media.removeEventListener("change", change);
  }, [media]);
  return fits;
}

/** Join the names of classes that apply. */
export function classes(...names) {
  return names.filter(Boolean).join(" ");
}

/**
 * Call `run(signal)` now and whenever the page is seen again; the signal aborts when it is hidden.
 *
 * @param run what is done while the page is seen
 * @param stop ends it for good
 */
export function whileSeen(run, stop) {
  let current = null;
  const change = () => {
    const isSeen = document.visibilityState === "visible" && !stop.aborted;
    if (isSeen && !current) {
      current = new AbortController();
      run(current.signal);
    } else if (!isSeen && current) {
      current.abort();
      current = null;
    }
  };
  document.addEventListener("visibilitychange", change, { signal: stop });
  stop.addEventListener("abort", change, { once: true });
  change();
}

/** Return a function that runs another one, at once or some seconds after the last time; many calls are one. */
export function atMostEvery(seconds, run) {
  let last = -Infinity;
  let timer = 0;
  return () => {
    if (timer) return;
    timer = setTimeout(() => {
      timer = 0;
      last = performance.now();
      run();
    }, Math.max(0, last + seconds * 1000 - performance.now()));
  };
}
