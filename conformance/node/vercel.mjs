// Scenarios of `ai` 7 against a service: node vercel.mjs SCENARIO URL. It prints what a page would show.
import { AbstractChat, DefaultChatTransport, lastAssistantMessageIsCompleteWithApprovalResponses, readUIMessageStream } from "ai";
import { droppingFetch } from "./dropping_fetch.mjs";

const [, , scenario, url] = process.argv;
const api = `${url}/vercel/${["search", "ask"].includes(scenario) ? "finder" : "clerk"}/chat`;

// What `useChat` keeps; its frameworks differ only in how they watch it.
class State {
  status = "ready";
  error = undefined;
  messages = [];
  pushMessage = message => (this.messages = [...this.messages, message]);
  popMessage = () => (this.messages = this.messages.slice(0, -1));
  replaceMessage = (index, message) => (this.messages = this.messages.with(index, structuredClone(message)));
  snapshot = value => structuredClone(value);
}

class Chat extends AbstractChat {
  constructor(options) {
    super({ ...options, state: Object.assign(new State(), { messages: options.messages ?? [] }) });
  }
}

const events = [];

function makeChat(options = {}) {
  const transport = new DefaultChatTransport({ api, body: options.body, fetch: options.fetch });
  return new Chat({
    id: "ada",
    transport,
    onData: part => events.push(part),
    onFinish: ({ finishReason, isDisconnect, isAbort }) => events.push({ finishReason, isDisconnect, isAbort }),
    ...options,
  });
}

const approvals = { sendAutomaticallyWhen: lastAssistantMessageIsCompleteWithApprovalResponses };

function findApproval(chat) {
  return chat.lastMessage.parts.find(part => part.state === "approval-requested")?.approval;
}

async function settled(chat) {
  while (chat.status === "submitted" || chat.status === "streaming") await new Promise(setImmediate);
}

async function answered(chat) {
  do await new Promise(setImmediate);
  while (chat.status !== "ready" || chat.lastMessage.metadata.status === "waiting");
}

const scenarios = {
  async text(chat = makeChat()) {
    await chat.sendMessage({ text: "hello" });
    return chat;
  },
  async tool(chat = makeChat()) {
    await chat.sendMessage({ text: "weather" });
    return chat;
  },
  async approve(chat = makeChat(approvals)) {
    await chat.sendMessage({ text: "pay" });
    await chat.addToolApprovalResponse({ id: findApproval(chat).id, approved: true });
    await answered(chat);
    return chat;
  },
  async deny(chat = makeChat(approvals)) {
    await chat.sendMessage({ text: "pay" });
    await chat.addToolApprovalResponse({ id: findApproval(chat).id, approved: false, reason: "Too much." });
    await answered(chat);
    return chat;
  },
  async twoApprovals(chat = makeChat(approvals)) {
    await chat.sendMessage({ text: "pay twice" });
    await chat.addToolApprovalResponse({ id: findApproval(chat).id, approved: true });
    await chat.addToolApprovalResponse({ id: findApproval(chat).id, approved: false });
    await answered(chat);
    return chat;
  },
  async question(chat = makeChat()) {
    await chat.sendMessage({ text: "book" });
    const asked = chat.lastMessage.parts.find(part => part.toolName === "clarification_question");
    await chat.addToolOutput({ tool: asked.toolName, toolCallId: asked.toolCallId, output: "Faro" });
    await chat.sendMessage();
    return chat;
  },
  async clientTool() {
    const tools = [{ name: "get_location", description: "Where the user is.", parameters: { type: "object", properties: {} } }];
    const chat = makeChat({
      body: { tools },
      onToolCall: ({ toolCall }) => {
        events.push({ toolCall: toolCall.toolName });
        chat.addToolOutput({ tool: toolCall.toolName, toolCallId: toolCall.toolCallId, output: { city: "Porto" } });
      },
    });
    await chat.sendMessage({ text: "where am I" });
    await chat.sendMessage();
    return chat;
  },
  async file(chat = makeChat()) {
    const picture = { type: "file", mediaType: "image/png", filename: "a.png", url: "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGP4z8AAAAMBAQDJ/pLvAAAAAElFTkSuQmCC" };
    await chat.sendMessage({ text: "look", files: [picture] });
    return chat;
  },
  async regenerate(chat = makeChat()) {
    await chat.sendMessage({ text: "hello" });
    await chat.regenerate();
    return chat;
  },
  async edit(chat = makeChat()) {
    await chat.sendMessage({ text: "hello" });
    await chat.sendMessage({ text: "more" });
    await chat.sendMessage({ text: "good morning", messageId: chat.messages[0].id });
    return chat;
  },
  async drop(chat = makeChat({ fetch: droppingFetch(3000) })) {
    await chat.sendMessage({ text: "long" });
    events.push({ shown: chat.lastMessage.parts.at(-1).text, error: chat.error?.message });
    await chat.resumeStream();
    return chat;
  },
  async idle(chat = makeChat()) {
    await chat.resumeStream();
    return chat;
  },
  async reload() {
    const before = makeChat(approvals);
    await before.sendMessage({ text: "pay" });
    const loaded = await (await fetch(`${api}/ada`)).json();
    const chat = makeChat({ ...approvals, messages: loaded.messages });
    await chat.addToolApprovalResponse({ id: findApproval(chat).id, approved: true });
    await answered(chat);
    return chat;
  },
  async twoTabs() {
    const first = makeChat(approvals);
    await first.sendMessage({ text: "pay" });
    const second = makeChat({ ...approvals, messages: structuredClone(first.messages) });
    const [one, two] = [findApproval(first).id, findApproval(second).id];
    await Promise.all([
      first.addToolApprovalResponse({ id: one, approved: true }),
      second.addToolApprovalResponse({ id: two, approved: false, reason: "No." }),
    ]);
    await Promise.all([answered(first), answered(second)]);
    events.push({ first: first.lastMessage.parts, second: second.lastMessage.parts });
    return second;
  },
  async error(chat = makeChat()) {
    await chat.sendMessage({ text: "pay" });
    await chat.sendMessage({ text: "and now?" });
    events.push({ error: chat.error?.message, status: chat.error?.statusCode });
    return chat;
  },
  // Sends a message and leaves in the middle of the text: `left` comes back after the server was killed.
  async leave(chat = makeChat({ fetch: droppingFetch(3000) })) {
    await chat.sendMessage({ text: "long" });
    return chat;
  },
  async comeBack() {
    const chat = makeChat();
    await chat.resumeStream();
    if (!chat.messages.length) chat.messages = (await (await fetch(`${api}/ada`)).json()).messages;
    return chat;
  },
  async search(chat = makeChat()) {
    await chat.sendMessage({ text: "Faro" });
    return chat;
  },
  async ask() {
    const transport = new DefaultChatTransport({ api });
    const message = { id: "m1", role: "user", parts: [{ type: "text", text: "ask" }] };
    const stream = await transport.sendMessages({ chatId: "ada", messages: [message], trigger: "submit-message" });
    let last;
    for await (const one of readUIMessageStream({ stream })) {
      last = one;
      events.push(...one.parts.filter(part => part.preliminary).map(part => structuredClone(part)));
    }
    return { status: "ready", messages: [last] };
  },
  async read() {
    const transport = new DefaultChatTransport({ api });
    const message = { id: "m1", role: "user", parts: [{ type: "text", text: "weather" }] };
    const stream = await transport.sendMessages({ chatId: "ada", messages: [message], trigger: "submit-message" });
    let last;
    for await (const one of readUIMessageStream({ stream })) last = one;
    return { status: "ready", messages: [last] };
  },
};

const chat = await scenarios[scenario]();
await settled(chat);
console.log(JSON.stringify({ status: chat.status, error: chat.error?.message, messages: chat.messages, events }));
process.exit(0);
