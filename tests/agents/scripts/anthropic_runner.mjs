// The tool runner of Anthropic's SDK for Node: node FILE FOLDER URL MODEL TASK whole|stream.
import { from, tools } from "./work.mjs";

const [folder, url, model, task, mode] = process.argv.slice(2);
const load = from(folder);
const { default: Anthropic } = await load("@anthropic-ai/sdk");
const { betaTool } = await load("@anthropic-ai/sdk/helpers/beta/json-schema");

const client = new Anthropic({ baseURL: url, apiKey: "k", maxRetries: 0 });
const runner = client.beta.messages.toolRunner({
  model,
  max_tokens: 4000,
  messages: [{ role: "user", content: task }],
  tools: tools.map(({ name, description, schema, run }) => betaTool({ name, description, inputSchema: schema, run })),
  stream: mode === "stream",
});
const last = await runner.runUntilDone();
console.log(last.content.at(-1).text);
