// Ollama's client for JavaScript against a gateway: node FILE URL FOLDER, in which it is installed.
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [url, folder] = process.argv.slice(2);
const installed = createRequire(`${folder}/package.json`);
const { Ollama } = await import(pathToFileURL(installed.resolve("ollama")).href);

const client = new Ollama({ host: url, headers: { authorization: "Bearer k" } });
const messages = [{ role: "user", content: "What is 17 + 25?" }];
const asked = { model: "tiny", messages, options: { temperature: 0 } };
await client.pull({ model: "tiny", stream: false });
const whole = await client.chat(asked);
let text = "", last;
for await (const part of await client.chat({ ...asked, stream: true })) {
  text += part.message.content;
  last = part;
}
const prompted = await client.generate({ model: "tiny:latest", prompt: messages[0].content, options: { temperature: 0 } });
let refusal = "";
try {
  await client.chat({ ...asked, model: "nobody" });
} catch (error) {
  refusal = error.message;
}
const embedded = await client.embed({ model: "mini", input: "the quick brown fox" });
console.log(JSON.stringify({
  whole: [whole.message.content, whole.prompt_eval_count, whole.eval_count],
  streamed: [text, last.prompt_eval_count, last.eval_count],
  prompted: [prompted.response, prompted.prompt_eval_count, prompted.eval_count],
  listed: (await client.list()).models.map((one) => one.name),
  capabilities: (await client.show({ model: "tiny" })).capabilities,
  vector: embedded.embeddings[0],
  refusal,
}));
