// The AI SDK's chat against a gateway: node FILE URL FOLDER, in which it is installed.
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [url, folder] = process.argv.slice(2);
const installed = createRequire(`${folder}/package.json`);
const load = (name) => import(pathToFileURL(installed.resolve(name)).href);
const { generateText, streamText } = await load("ai");
const { createOpenAICompatible } = await load("@ai-sdk/openai-compatible");

const gateway = createOpenAICompatible({ name: "gateway", baseURL: `${url}/v1`, apiKey: "k", includeUsage: true });
const asked = { model: gateway.chatModel("tiny"), prompt: "What is 17 + 25?", temperature: 0 };
const whole = await generateText(asked);
const stream = streamText(asked);
let text = "";
for await (const piece of stream.textStream) text += piece;
const tokens = (usage) => [usage.inputTokens, usage.outputTokens];
console.log(JSON.stringify({
  whole: [whole.text, ...tokens(whole.usage)],
  streamed: [text, ...tokens(await stream.usage)],
}));
