// The page: connects what a person does with the conversation.
import { Conversation } from "./conversation.js";
import { findStorage, Memory } from "./memory.js";
import { Photo } from "./photo.js";
import { Service } from "./service.js";
import { View } from "./view.js";

const LOOK_EVERY = 20_000;
const NEVER_MIND = "Never mind";

const by = (id) => document.getElementById(id);
const memory = new Memory(findStorage());
const service = new Service(memory);
const view = new View();
const conversation = new Conversation(service, memory, view);
const photo = new Photo(service, conversation, view);

function say(text) {
  view.openSaved(false);
  by("message").focus();
  return conversation.send(text);
}

function sendWritten() {
  if (conversation.busy) return;
  const text = by("message").value;
  by("message").value = "";
  say(text);
}

by("composer").addEventListener("submit", (event) => {
  event.preventDefault();
  sendWritten();
});
by("message").addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  sendWritten();
});
view.change = say;
by("back").addEventListener("click", () => say(view.wordsToGoBack()));
by("keep").addEventListener("click", () => say(NEVER_MIND));

by("add-photo").addEventListener("click", () => by("file").click());
by("drop-photo").addEventListener("click", () => by("file").click());
by("send-photo").addEventListener("click", () => photo.send());
by("file").addEventListener("change", () => {
  const [file] = by("file").files;
  by("file").value = "";
  if (file) photo.choose(file);
});
by("preview").addEventListener("error", () => { by("preview").hidden = true; }); // not every browser shows HEIC

by("show-saved").addEventListener("click", () => {
  view.openSaved(by("show-saved").getAttribute("aria-expanded") !== "true");
});
by("hide-saved").addEventListener("click", () => {
  view.openSaved(false);
  by("show-saved").focus();
});
addEventListener("keydown", (event) => {
  if (event.key === "Escape") view.openSaved(false);
});

by("forget").addEventListener("click", () => by("ask-forget").showModal());
by("ask-forget").addEventListener("close", () => {
  if (by("ask-forget").returnValue === "yes") {
    photo.forget();
    conversation.forget();
  }
  by("ask-forget").returnValue = "";
  by("message").focus();
});

addEventListener("storage", (event) => {
  if (event.key === "registration.session") location.reload(); // another tab began or forgot a conversation
});
document.addEventListener("visibilitychange", () => {
  if (!document.hidden) conversation.refresh();
});
addEventListener("online", () => conversation.refresh());
setInterval(() => { if (!document.hidden) conversation.look(); }, LOOK_EVERY);

view.describe(null);
by("message").focus();
await conversation.open();
if (view.wantsPhoto) await photo.resume();
