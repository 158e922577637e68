// Google's SDK for JavaScript against a gateway: node FILE URL FOLDER, in which it is installed.
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [url, folder] = process.argv.slice(2);
const installed = createRequire(`${folder}/package.json`);
const load = (name) => import(pathToFileURL(installed.resolve(name)).href);
const { GoogleGenAI, FunctionCallingConfigMode } = await load("@google/genai");

const client = new GoogleGenAI({ apiKey: "k", httpOptions: { baseUrl: url } });
const asked = { model: "tiny", contents: "What is 17 + 25?", config: { temperature: 0 } };
const counts = ({ promptTokenCount, candidatesTokenCount }) => [promptTokenCount, candidatesTokenCount];
const whole = await client.models.generateContent(asked);
let text = "";
let last;
for await (const chunk of await client.models.generateContentStream(asked)) {
  text += chunk.text;
  last = chunk;
}
const city = { type: "object", properties: { city: { type: "string" } }, required: ["city"] };
const forced = await client.models.generateContent({
  ...asked,
  contents: "What is the weather in Rome?",
  config: {
    temperature: 0,
    tools: [{ functionDeclarations: [{ name: "weather", parametersJsonSchema: city }] }],
    toolConfig: { functionCallingConfig: { mode: FunctionCallingConfigMode.ANY } },
  },
});
const counted = await client.models.countTokens({ model: "tiny", contents: asked.contents });
const embedded = await client.models.embedContent({
  model: "mini",
  contents: ["the quick brown fox", "a dog"],
});
const names = [];
for await (const one of await client.models.list()) names.push(one.name);
console.log(JSON.stringify({
  whole: [whole.text, ...counts(whole.usageMetadata)],
  streamed: [text, ...counts(last.usageMetadata)],
  called: forced.functionCalls.map(({ name, args }) => [name, Object.keys(args)]),
  counted: counted.totalTokens,
  embedded: embedded.embeddings.map(({ values }) => values.length > 0),
  names,
}));
