// Chats from openai-node, every second one streamed: node FILE URL KEY MODEL NUMBER FOLDER, in which it is installed.
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [url, key, model, chats, folder] = process.argv.slice(2);
const installed = createRequire(`${folder}/package.json`);
const { default: OpenAI } = await import(pathToFileURL(installed.resolve("openai")).href);

const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: key });
for (let number = 0; number < Number(chats); number++) {
  const messages = [{ role: "user", content: `What is 17 + ${number}?` }];
  if (number % 2) {
    const stream = await client.chat.completions.create({ model, messages, stream: true });
    for await (const _ of stream);
  } else {
    await client.chat.completions.create({ model, messages });
  }
}
