// What the programs of the clients share. Each line of input is a list of the API, the scenario and the base URL.
// What happened is printed as one JSON object a line; a failure is what happened, too.
import { createInterface } from "node:readline";

export const PROMPT = "one two three four five six seven eight nine ten";

export const SCHEMA = {
  type: "object",
  properties: { city: { type: "string" }, days: { type: "integer" } },
  required: ["city", "days"],
  additionalProperties: false,
};

export const TOOL = {
  name: "weather",
  description: "The weather of a city.",
  parameters: {
    type: "object",
    properties: { city: { type: "string" } },
    required: ["city"],
    additionalProperties: false,
  },
};

/** Read a stream to its end; if it breaks, return what came before with the failure. */
export async function follow(items, textOf) {
  let text = "";
  let pieces = 0;
  try {
    for await (const item of items) {
      const piece = textOf(item);
      if (piece) {
        text += piece;
        pieces += 1;
      }
    }
  } catch (error) {
    return { text, pieces, ...describe(error) };
  }
  return { text, pieces };
}

function describe(error) {
  return { error: error.constructor.name, status: error.status };
}

export async function main(scenarios) {
  for await (const line of createInterface({ input: process.stdin })) {
    const [api, scenario, url] = JSON.parse(line);
    let happened;
    try {
      happened = await scenarios[api][scenario](url);
    } catch (error) {
      happened = describe(error);
      if (happened.status === undefined) happened = { crash: `${error.stack}` };
    }
    console.log(JSON.stringify(happened));
  }
}
