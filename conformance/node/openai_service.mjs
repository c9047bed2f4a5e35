// The official client of OpenAI against the service: what the emulator does not have.
import OpenAI from "openai";
import { main, PROMPT } from "./scenarios.mjs";

function connect(url) {
  return new OpenAI({ baseURL: url, apiKey: "any", maxRetries: 0 });
}

const listSource = (note, text) => [note.url, note.title, text.slice(note.start_index, note.end_index)];

const scenarios = {
  sources: async (url) => {
    const stream = connect(url).responses.stream({ model: "demo", input: PROMPT });
    const [message, search] = (await stream.finalResponse()).output;
    const [part] = message.content;
    return {
      sources: part.annotations.map((one) => listSource(one, part.text)),
      search: [search.status, search.action.query, search.action.sources.map((one) => one.url)],
    };
  },
  // Start in the background, leave in the middle of the stream, and come back with the number.
  background: async (url) => {
    const client = connect(url);
    const wanted = { model: "demo", input: PROMPT, background: true, stream: true };
    const begun = await client.responses.create(wanted);
    let text = "";
    let number = 0;
    let name = "";
    for await (const event of begun) {
      number = event.sequence_number;
      if (event.type === "response.created") name = event.response.id;
      if (event.type === "response.output_text.delta") text += event.delta;
      if (text.length > 10) break;
    }
    const rest = await client.responses.retrieve(name, { stream: true, starting_after: number });
    for await (const event of rest) {
      if (event.type === "response.output_text.delta") text += event.delta;
    }
    const whole = await client.responses.retrieve(name);
    const cancelled = await client.responses.cancel(name);
    return { text, whole: whole.output_text, status: cancelled.status };
  },
  session: async (url) => {
    const client = connect(url);
    const ask = (input, more = {}) => client.responses.create({ model: "demo", input, ...more });
    const first = await ask("first");
    const second = await ask("second", { previous_response_id: first.id });
    const other = await ask("other", { previous_response_id: first.id });
    const conversation = (await client.conversations.create()).id;
    const named = await ask("named", { conversation });
    return {
      texts: [first, second, other, named].map((one) => one.output_text),
      previous: [second, other].every((one) => one.previous_response_id === first.id),
      conversation: named.conversation.id === conversation,
    };
  },
};

const chat = {
  sources: async (url) => {
    const messages = [{ role: "user", content: PROMPT }];
    const { message } = (await connect(url).chat.completions.create({ model: "demo", messages })).choices[0];
    return { sources: message.annotations.map((one) => listSource(one.url_citation, message.content)) };
  },
};

await main({ chat, responses: scenarios });
