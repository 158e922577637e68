// The tool runners of OpenAI's SDK for Node: node FILE FOLDER URL MODEL TASK chat|responses.
import { from, tools } from "./work.mjs";

const [folder, url, model, task, api] = process.argv.slice(2);
const load = from(folder);
const { default: OpenAI } = await load("openai");
const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: "k", maxRetries: 0 });

const chat = async () => {
  const runner = client.chat.completions.runTools({
    model,
    stream: true,
    messages: [{ role: "user", content: task }],
    tools: tools.map(({ name, description, schema, run }) => ({
      type: "function",
      function: { name, description, parameters: schema, parse: JSON.parse, function: run },
    })),
  });
  return runner.finalContent();
};

const responses = async () => {
  const { ResponsesToolRunner } = await load("openai/helpers/responses-tool-runner");
  const runner = new ResponsesToolRunner({
    functions: tools.map(({ name, description, schema, run }) => ({
      tool: { type: "function", name, description, parameters: schema, strict: true },
      execute: run,
    })),
  });
  const last = await runner.run(client, { model, input: task, store: false }, { stream: true });
  return last.output_text;
};

console.log(await (api === "chat" ? chat() : responses()));
