// Drives the files of the guide: node front_end.mjs FOLDER. It prints what the two pages would show.
import { AbstractChat } from "ai";

const folder = process.argv[2];
const { chatOptions, loadMessages, cancel } = await import(`${folder}/chat.ts`);
const { thread, send, attach, answer } = await import(`${folder}/thread.ts`);

class State {
  status = "ready";
  messages = [];
  pushMessage = message => (this.messages = [...this.messages, message]);
  popMessage = () => (this.messages = this.messages.slice(0, -1));
  replaceMessage = (index, message) => (this.messages = this.messages.with(index, structuredClone(message)));
  snapshot = value => structuredClone(value);
}

class Chat extends AbstractChat {
  constructor({ messages, ...options }) {
    super({ ...options, state: Object.assign(new State(), { messages }) });
  }
}

async function until(isTrue) {
  while (!isTrue()) await new Promise(setImmediate);
}

const waits = chat => chat.status === "ready" && chat.lastMessage.metadata.status === "waiting";
const isDone = chat => chat.status === "ready" && chat.lastMessage.metadata.status === "completed";

const text = "I want my 10 euros back.";
const first = new Chat(chatOptions("ada"));
await first.sendMessage({ text });
const again = new Chat(chatOptions("ada", await loadMessages("ada")));
await again.resumeStream();
await until(() => waits(again));
const asked = again.lastMessage.parts.find(part => part.state === "approval-requested");
await again.addToolApprovalResponse({ id: asked.approval.id, approved: true });
await until(() => isDone(again));

const other = new Chat(chatOptions("cleo"));
await other.sendMessage({ text });
await cancel("cleo");
const cancelled = await loadMessages("cleo");

await send(text);
const interrupts = structuredClone(thread.pendingInterrupts);
await attach().catch(() => {}); // a question has to be answered or given up
await answer({ approved: true });

console.log(JSON.stringify({ chat: again.messages, cancelled, interrupts, thread: thread.messages }));
process.exit(0);
