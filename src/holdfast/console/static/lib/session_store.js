// One session as it is shown: its fold, followed live, and the drawings that this asks for.
import { signal, whileSeen } from "./dom.js";
import { applyItem, emptySession } from "./fold.js";
import { follow } from "./api.js";

/** A session that is followed while somebody looks at it. */
export class FollowedSession {
  constructor(name) {
    this.name = name;
    this.state = emptySession();
    this.version = signal(0);
    this.connection = signal("connecting");
    this.caughtUp = signal(false);
    this.stop = new AbortController();
    this.willDraw = false;
  }

  /** Follow it while the page is seen: a page that comes back has its position. */
  begin() {
    whileSeen((seen) => follow(this.name, {
      position: () => this.state.position,
      onItem: (item) => {
        applyItem(this.state, item);
        this.draw();
      },
      onState: (state) => { this.connection.value = state; },
    }, seen), this.stop.signal);
  }

  /** Draw at most once a frame, however many items arrive. */
  draw() {
    if (this.willDraw) return;
    this.willDraw = true;
    const show = () => {
      this.willDraw = false;
      if (!this.stop.signal.aborted) this.version.value += 1;
    };
    if (document.visibilityState === "visible") requestAnimationFrame(show);
    else setTimeout(show, 250);
  }

  end() {
    this.stop.abort();
  }
}

/** The state of a turn in a session: what the service says of the last one, else how it ended. */
export function stateOfTurn(session, turn) {
  const isOpen = !turn.closedAt;
  if (isOpen && turn.number === session.last.turn) return session.last.status;
  return turn.inDoubt.length ? "in_doubt" : turn.status;
}
