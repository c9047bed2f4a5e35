// Prints the tools of the MCP servers that npm has installed here: starts each over stdin and stdout, and asks for its list.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";

const SERVERS = {
  everything: ["@modelcontextprotocol/server-everything/dist/index.js"],
  filesystem: ["@modelcontextprotocol/server-filesystem/dist/index.js", "."],
  github: ["@modelcontextprotocol/server-github/dist/index.js"],
  slack: ["@modelcontextprotocol/server-slack/dist/index.js"],
  playwright: ["@playwright/mcp/cli.js"],
};
// No server is called but for its list, so the tokens stand for nothing.
const env = { PATH: process.env.PATH, HOME: process.env.HOME, SLACK_BOT_TOKEN: "none", SLACK_TEAM_ID: "none" };

async function listTools([program, ...args]) {
  const server = spawn(process.execPath, [`node_modules/${program}`, ...args], { env, stdio: ["pipe", "pipe", "ignore"] });
  const lines = createInterface({ input: server.stdout })[Symbol.asyncIterator]();
  const send = (message) => server.stdin.write(`${JSON.stringify({ jsonrpc: "2.0", ...message })}\n`);
  const ask = async (id, method, params) => {
    send({ id, method, params });
    for (;;) {
      const { value, done } = await lines.next();
      if (done) throw new Error(`${program} ended`);
      const message = JSON.parse(value);
      if (message.id === id && message.result) return message.result;
    }
  };
  await ask(1, "initialize", {
    protocolVersion: "2025-06-18",
    capabilities: {},
    clientInfo: { name: "holdfast", version: "0" },
  });
  send({ method: "notifications/initialized" });
  const { tools } = await ask(2, "tools/list", {});
  server.kill();
  await once(server, "exit");
  return tools.map(({ name, description = "", inputSchema, annotations = {} }) => ({
    name,
    description,
    schema: inputSchema,
    reads: annotations.readOnlyHint ?? null,
  }));
}

const lists = {};
for (const [name, command] of Object.entries(SERVERS)) lists[name] = await listTools(command);
console.log(JSON.stringify(lists));
