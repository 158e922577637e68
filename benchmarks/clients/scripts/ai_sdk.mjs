// Chats from the AI SDK, every second one streamed: node FILE URL KEY MODEL NUMBER FOLDER, in which it is installed.
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [url, key, model, chats, folder] = process.argv.slice(2);
const installed = createRequire(`${folder}/package.json`);
const load = (name) => import(pathToFileURL(installed.resolve(name)).href);
const { generateText, streamText } = await load("ai");
const { createOpenAICompatible } = await load("@ai-sdk/openai-compatible");

const gateway = createOpenAICompatible({ name: "gateway", baseURL: `${url}/v1`, apiKey: key });
for (let number = 0; number < Number(chats); number++) {
  const asked = { model: gateway.chatModel(model), prompt: `What is 17 + ${number}?` };
  if (number % 2) {
    for await (const _ of streamText(asked).textStream);
  } else {
    await generateText(asked);
  }
}
