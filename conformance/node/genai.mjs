// The official client of Google against the emulator.
import { GoogleGenAI } from "@google/genai";
import { follow, main, PROMPT, SCHEMA, TOOL } from "./scenarios.mjs";

const said = { role: "user", parts: [{ text: PROMPT }] };

function connect(url) {
  return new GoogleGenAI({ apiKey: "any", httpOptions: { baseUrl: new URL(url).origin } }).models;
}

async function ask(models, config = {}, contents = [said]) {
  return await models.generateContent({ model: "demo", contents, config });
}

const scenarios = {
  call: async (url) => {
    const reply = await ask(connect(url));
    return { text: reply.text, tokens: reply.usageMetadata.promptTokenCount };
  },
  tool: async (url) => {
    const models = connect(url);
    const { name, description, parameters } = TOOL;
    const declared = { name, description, parametersJsonSchema: parameters };
    const config = { tools: [{ functionDeclarations: [declared] }] };
    const first = await ask(models, config);
    const [asked] = first.functionCalls;
    const response = { id: asked.id, name: asked.name, response: { output: "sunny" } };
    const result = { role: "user", parts: [{ functionResponse: response }] };
    const after = await ask(models, config, [said, first.candidates[0].content, result]);
    return { name: asked.name, arguments: asked.args, text: after.text };
  },
  schema: async (url) => {
    const config = { responseMimeType: "application/json", responseJsonSchema: SCHEMA };
    return { value: JSON.parse((await ask(connect(url), config)).text) };
  },
  stream: async (url) => {
    const chunks = await connect(url).generateContentStream({ model: "demo", contents: [said] });
    return await follow(chunks, (chunk) => chunk.text);
  },
};

await main({ gemini: scenarios });
