// Chats of Google's SDK for JavaScript: node FILE FOLDER URL MODEL TASK stream.
import { from, tools } from "./work.mjs";

const [folder, url, model, task] = process.argv.slice(2);
const load = from(folder);
const { GoogleGenAI } = await load("@google/genai");
const client = new GoogleGenAI({ apiKey: "k", httpOptions: { baseUrl: url } });
const functionDeclarations = tools.map(({ name, description, schema }) => ({
  name,
  description,
  parametersJsonSchema: schema,
}));
const chat = client.chats.create({ model, config: { tools: [{ functionDeclarations }] } });

let message = task;
for (;;) {
  const calls = [];
  let text = "";
  for await (const chunk of await chat.sendMessageStream({ message })) {
    calls.push(...(chunk.functionCalls ?? []));
    text += calls.length ? "" : (chunk.text ?? "");
  }
  if (!calls.length) {
    console.log(text);
    break;
  }
  message = [];
  for (const { id, name, args } of calls) {
    const output = await tools.find((one) => one.name === name).run(args);
    message.push({ functionResponse: { id, name, response: { output } } });
  }
}
