// Vercel's AI SDK: node FILE FOLDER URL MODEL TASK responses|messages|chat. JOB: in the environment.
import { readFileSync } from "node:fs";
import { from, tools } from "./work.mjs";

const [folder, url, model, task, api] = process.argv.slice(2);
const load = from(folder);
const { jsonSchema, stepCountIs, streamText, tool } = await load("ai");

const openai = async () => {
  const { createOpenAI } = await load("@ai-sdk/openai");
  return createOpenAI({ baseURL: `${url}/v1`, apiKey: "k" });
};
const anthropic = async () => {
  const { createAnthropic } = await load("@ai-sdk/anthropic");
  return createAnthropic({ baseURL: `${url}/v1`, apiKey: "k" });
};
const compatible = async () => {
  const { createOpenAICompatible } = await load("@ai-sdk/openai-compatible");
  return createOpenAICompatible({ name: "gateway", baseURL: `${url}/v1`, apiKey: "k" });
};

const provider = await { responses: openai, messages: anthropic, chat: compatible }[api]();
const search = () =>
  api === "messages" ? provider.tools.webSearch_20250305() : provider.tools.webSearch();
const own = Object.fromEntries(
  tools.map(({ name, description, schema, run }) => [
    name,
    tool({ description, inputSchema: jsonSchema(schema), execute: run }),
  ]),
);
const pdf = () => ({ type: "file", mediaType: "application/pdf", data: readFileSync("prices.pdf") });
const text = { type: "text", text: task };
const result = streamText({
  model: provider(model),
  tools: process.env.JOB === "search" ? { ...own, web_search: search() } : own,
  stopWhen: stepCountIs(10),
  messages: [{ role: "user", content: process.env.JOB === "pdf" ? [text, pdf()] : [text] }],
});
for await (const part of result.fullStream) if (part.type === "error") throw part.error;
console.log(await result.text);
