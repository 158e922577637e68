// The tools that the scripts for Node give their agents. Descriptions are what models read.
import { execSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const schema = (...names) => ({
  type: "object",
  properties: Object.fromEntries(names.map((name) => [name, { type: "string" }])),
  required: names,
  additionalProperties: false,
});

const replace = ({ file, before, after }) => {
  writeFileSync(file, readFileSync(file, "utf8").replace(before, after));
  return "done";
};

const working = [
  {
    name: "read_text",
    description: "Return the text of a file.",
    schema: schema("file"),
    run: ({ file }) => readFileSync(file, "utf8"),
  },
  {
    name: "replace_text",
    description: "Replace a text that a file has once.",
    schema: schema("file", "before", "after"),
    run: replace,
  },
  {
    name: "run_command",
    description: "Run a shell command, and return what it prints.",
    schema: schema("command"),
    run: ({ command }) => execSync(command, { encoding: "utf8" }),
  },
];

const weather = {
  name: "get_weather",
  description: "Get the current weather for a city.",
  schema: schema("city"),
  run: () => '{"temperature": 18, "conditions": "sunny"}',
};

// A model of 0.7 million weights can do no more than the weather.
export const tools = process.env.JOB === "weather" ? [weather] : working;

// A package of the folder in which the client is installed.
export const from = (folder) => {
  const installed = createRequire(`${folder}/package.json`);
  return (name) => import(pathToFileURL(installed.resolve(name)).href);
};
