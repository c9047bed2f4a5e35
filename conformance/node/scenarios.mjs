// What the programs of the three clients share. Arguments: the API, the scenario, the base URL of the emulator.
// What happened is printed as one JSON object; a failure is what happened, too.

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
  const [api, scenario, url] = process.argv.slice(2);
  let happened;
  try {
    happened = await scenarios[api][scenario](url);
  } catch (error) {
    happened = describe(error);
    if (happened.status === undefined) throw error;
  }
  console.log(JSON.stringify(happened));
}
