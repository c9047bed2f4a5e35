// The official client of Anthropic against the emulator.
import Anthropic from "@anthropic-ai/sdk";
import { follow, main, PROMPT, SCHEMA, TOOL } from "./scenarios.mjs";

const messages = [{ role: "user", content: PROMPT }];

async function ask(client, more = {}) {
  return await client.messages.create({ model: "demo", max_tokens: 200, messages, ...more });
}

function connect(url) {
  return new Anthropic({ baseURL: new URL(url).origin, apiKey: "any", maxRetries: 0 });
}

function read(reply) {
  return reply.content.find((block) => block.type === "text").text;
}

const scenarios = {
  call: async (url) => {
    const reply = await ask(connect(url));
    return { text: read(reply), tokens: reply.usage.input_tokens };
  },
  tool: async (url) => {
    const client = connect(url);
    const { name, description, parameters } = TOOL;
    const tools = [{ name, description, input_schema: parameters }];
    const first = await ask(client, { tools });
    const asked = first.content.find((block) => block.type === "tool_use");
    const result = { type: "tool_result", tool_use_id: asked.id, content: "sunny" };
    const said = { role: "assistant", content: first.content };
    const next = { role: "user", content: [result] };
    const after = await ask(client, { tools, messages: [...messages, said, next] });
    return { name: asked.name, arguments: asked.input, text: read(after) };
  },
  schema: async (url) => {
    const wanted = { format: { type: "json_schema", schema: SCHEMA } };
    return { value: JSON.parse(read(await ask(connect(url), { output_config: wanted }))) };
  },
  stream: async (url) => {
    const events = await ask(connect(url), { stream: true });
    return await follow(events, (event) => event.delta?.text);
  },
};

await main({ messages: scenarios });
