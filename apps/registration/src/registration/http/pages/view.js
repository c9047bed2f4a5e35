// What a person sees. Texts are only ever set as text.

const WELCOME = "Hello! I register your child with the club, step by step; it takes about ten minutes. "
  + "Please type the registration code that your team’s manager or coach gave you. "
  + "If you have none, just ask me.";

const by = (id) => document.getElementById(id);

export class View {
  #growing = "";
  #shown = null;
  #isSending = false;
  #preview = "";
  #isAtEnd = true;
  #height = 0; // of the messages, when it was last known whether their end is shown
  change = () => {};
  wantsPhoto = false;

  constructor() {
    const box = by("scroll");
    box.addEventListener("scroll", () => {
      if (box.clientHeight !== this.#height) return; // it became smaller, and nobody scrolled
      this.#isAtEnd = box.scrollHeight - box.scrollTop - box.clientHeight < 40;
    }, { passive: true });
    // A keyboard that opens, or a photo that is shown, must not hide the last question.
    new ResizeObserver(() => {
      this.#height = box.clientHeight;
      if (this.#isAtEnd) this.#follow();
    }).observe(box);
  }

  /** Show an empty conversation. */
  begin() {
    by("talk").replaceChildren();
    this.add({ by: "club", text: WELCOME });
    this.calm();
  }

  /** Let screen readers be silent about the lines that come now. */
  hush() {
    by("talk").setAttribute("aria-live", "off");
    setTimeout(() => by("talk").removeAttribute("aria-live"), 1000);
  }

  /** Show a line of the conversation. */
  add({ by: who, text }) {
    this.#grow("");
    const line = make("div", `line ${who}`);
    const words = make("p");
    words.append(make("span", "hidden", who === "parent" ? "You: " : "Club: "), text);
    line.append(words);
    by("talk").append(line);
    this.#follow();
  }

  /** Show an event of a turn. */
  tell({ type, data }) {
    this.#trouble("");
    if (type === "status") this.#status(data.text);
    else if (type === "text") this.#grow(this.#growing.slice(0, data.offset) + data.text);
    else if (type === "forget") this.#grow("");
    this.#follow();
  }

  /** Show in plain words what does not work, and what to do. */
  trouble(text, label = "", act = null) {
    this.#status("");
    this.#grow("");
    this.#trouble(text, label, act);
    this.#follow();
  }

  /** Put words that could not be sent back where they were written. */
  giveBack(text) {
    if (!by("message").value) by("message").value = text;
  }

  /** Show no status and no trouble. */
  calm() {
    this.#status("");
    this.#trouble("");
    this.#grow("");
  }

  /** Show whether a message is under way. */
  sending(isSending) {
    this.#isSending = isSending;
    if (isSending) this.#trouble("");
    this.#status(isSending ? "One moment." : "");
    by("send").disabled = isSending;
    document.querySelectorAll(".change").forEach((one) => { one.disabled = isSending; });
    by("back").disabled = by("keep").disabled = isSending;
    by("forget").hidden = !isSending && by("talk").childElementCount < 2;
  }

  /** Show how far the registration is, and what is saved; null for none. */
  describe(shown) {
    const saved = shown?.saved ?? [];
    const began = Boolean(shown?.of);
    by("forget").hidden = !shown;
    by("progress").hidden = !began;
    by("show-saved").hidden = by("saved").hidden = !saved.length;
    if (!saved.length) this.openSaved(false);
    if (began) {
      by("step").textContent = `Step ${shown.step} of ${shown.of}`;
      by("bar").max = shown.of;
      by("bar").value = shown.step;
    }
    by("message").placeholder = began ? "Your answer" : "Your registration code";
    this.wantsPhoto = shown?.step === 34;
    by("add-photo").hidden = !this.wantsPhoto;
    if (!this.wantsPhoto) this.photo(null);
    this.#describeWays(shown, saved);
    if (JSON.stringify(saved) !== JSON.stringify(this.#shown?.saved ?? [])) {
      by("rows").replaceChildren(...saved.map((row) => this.#makeRow(row, shown.to_change)));
    }
    this.#shown = shown;
  }

  /** Show the photo and what happens to it: `{file?, text, canSend?, canDrop?}`; null for none. */
  photo(photo) {
    by("photo").hidden = !photo;
    if (!photo || photo.file) {
      if (this.#preview) URL.revokeObjectURL(this.#preview);
      this.#preview = photo ? URL.createObjectURL(photo.file) : "";
      by("preview").hidden = !photo;
      if (photo) by("preview").src = this.#preview;
      else by("preview").removeAttribute("src");
    }
    if (!photo) return;
    if (!this.#preview) by("preview").hidden = true;
    by("photo-state").textContent = photo.text;
    by("send-photo").hidden = !photo.canSend;
    by("drop-photo").hidden = !(photo.canSend || photo.canDrop);
  }

  /** Show what is saved in place of the chat, on a narrow screen. */
  openSaved(isOpen) {
    document.body.classList.toggle("saved-open", isOpen);
    by("show-saved").setAttribute("aria-expanded", String(isOpen));
  }

  /** Return the message with which a parent goes back: to change the last answer that can be changed. */
  wordsToGoBack() {
    const row = this.#shown?.saved?.findLast((one) => !one.fixed);
    return row ? this.#shown.to_change + row.label : "";
  }

  #describeWays(shown, saved) {
    const correcting = Boolean(shown?.correcting);
    by("keep").hidden = !correcting;
    by("back").hidden = correcting || !saved.some((row) => !row.fixed);
    by("ways").hidden = by("keep").hidden && by("back").hidden;
  }

  #makeRow({ label, value, fixed }, toChange) {
    const row = make("div");
    row.append(make("dt", "", label), make("dd", "", value));
    if (!fixed) {
      const button = make("button", "button plain change", "Change");
      button.type = "button";
      button.disabled = this.#isSending;
      button.setAttribute("aria-label", `Change: ${label}`);
      button.addEventListener("click", () => this.change(toChange + label));
      const act = make("dd", "act");
      act.append(button);
      row.append(act);
    }
    return row;
  }

  #status(text) {
    if (by("status").textContent !== text) by("status").textContent = text;
  }

  #trouble(text, label = "", act = null) {
    const box = by("trouble");
    if (box.textContent === text + label && !act) return;
    box.replaceChildren();
    if (!text) return;
    box.append(make("p", "", text));
    if (!act) return;
    const button = make("button", "button", label);
    button.type = "button";
    button.addEventListener("click", () => {
      by("message").focus();
      act();
    }, { once: true });
    box.append(button);
  }

  #grow(text) {
    this.#growing = text;
    by("growing").hidden = !text;
    by("growing").firstElementChild.textContent = text;
  }

  #follow() {
    by("scroll").scrollTop = by("scroll").scrollHeight;
  }
}

function make(name, className = "", text = "") {
  const element = document.createElement(name);
  if (className) element.className = className;
  if (text) element.textContent = text;
  return element;
}
