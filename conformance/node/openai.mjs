// The official client of OpenAI against the emulator, on its two APIs.
import OpenAI from "openai";
import { follow, main, PROMPT, SCHEMA, TOOL } from "./scenarios.mjs";

const format = { type: "json_schema", name: "trip", strict: true, schema: SCHEMA };
const messages = [{ role: "user", content: PROMPT }];

function connect(url) {
  return new OpenAI({ baseURL: url, apiKey: "any", maxRetries: 0 });
}

async function chat(client, more = {}) {
  return await client.chat.completions.create({ model: "demo", messages, ...more });
}

const chatScenarios = {
  call: async (url) => {
    const reply = await chat(connect(url));
    return { text: reply.choices[0].message.content, tokens: reply.usage.prompt_tokens };
  },
  tool: async (url) => {
    const client = connect(url);
    const tools = [{ type: "function", function: TOOL }];
    const first = (await chat(client, { tools })).choices[0].message;
    const [asked] = first.tool_calls;
    const result = { role: "tool", tool_call_id: asked.id, content: "sunny" };
    const after = await chat(client, { tools, messages: [...messages, first, result] });
    const args = JSON.parse(asked.function.arguments);
    return { name: asked.function.name, arguments: args, text: after.choices[0].message.content };
  },
  schema: async (url) => {
    const { name, strict, schema } = format;
    const wanted = { type: "json_schema", json_schema: { name, strict, schema } };
    const reply = await chat(connect(url), { response_format: wanted });
    return { value: JSON.parse(reply.choices[0].message.content) };
  },
  stream: async (url) => {
    const chunks = await chat(connect(url), { stream: true });
    return await follow(chunks, (chunk) => chunk.choices[0]?.delta?.content);
  },
};

const responsesScenarios = {
  call: async (url) => {
    const reply = await connect(url).responses.create({ model: "demo", input: PROMPT });
    return { text: reply.output_text, tokens: reply.usage.input_tokens };
  },
  tool: async (url) => {
    const client = connect(url);
    const tools = [{ type: "function", strict: false, ...TOOL }];
    const first = await client.responses.create({ model: "demo", input: messages, tools });
    const asked = first.output.find((item) => item.type === "function_call");
    const result = { type: "function_call_output", call_id: asked.call_id, output: "sunny" };
    const input = [...messages, ...first.output, result];
    const after = await client.responses.create({ model: "demo", input, tools });
    return { name: asked.name, arguments: JSON.parse(asked.arguments), text: after.output_text };
  },
  schema: async (url) => {
    const wanted = { model: "demo", input: PROMPT, text: { format } };
    return { value: JSON.parse((await connect(url).responses.create(wanted)).output_text) };
  },
  stream: async (url) => {
    const wanted = { model: "demo", input: PROMPT, stream: true };
    const events = await connect(url).responses.create(wanted);
    return await follow(events, (event) =>
      event.type === "response.output_text.delta" ? event.delta : undefined,
    );
  },
};

await main({ chat: chatScenarios, responses: responsesScenarios });
