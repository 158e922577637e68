// The playground: one conversation with each of two models, over Chat Completions, as any client.
// Texts of models and clients are only ever set as text, never as HTML. It uses chat.js.
"use strict";

const NUMBERS = ["temperature", "top_p", "max_completion_tokens", "seed"];
const JSON_FIELDS = ["response_format", "tools"];

// What the form asks for, without the messages. Throws an Error that names a field with bad JSON.
function parameters(form) {
  const body = {};
  for (const name of NUMBERS) if (form[name].value !== "") body[name] = Number(form[name].value);
  if (form.reasoning_effort.value) body.reasoning_effort = form.reasoning_effort.value;
  const stop = form.stop.value.split(",").filter(Boolean);
  if (stop.length) body.stop = stop;
  for (const name of JSON_FIELDS) {
    if (!form[name].value.trim()) continue;
    try {
      body[name] = JSON.parse(form[name].value);
    } catch (error) {
      throw new Error(`${name}: ${error.message}`);
    }
  }
  return body;
}

function picture(form) {
  const [file] = form.picture.files;
  if (!file) return null;
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(reader.result);
    reader.onerror = () => reject(reader.error);
    reader.readAsDataURL(file);
  });
}

async function userMessage(form) {
  const text = form.message.value;
  const url = await picture(form);
  if (!url) return { role: "user", content: text };
  const parts = [{ type: "text", text }, { type: "image_url", image_url: { url } }];
  return { role: "user", content: parts };
}

function withSystem(form, messages) {
  const text = form.system.value.trim();
  return text ? [{ role: "system", content: text }, ...messages] : messages;
}

// Adds the parts of tool calls in an event to the calls, by their indices.
function addCalls(calls, delta) {
  for (const one of delta.tool_calls ?? []) {
    const call = (calls[one.index ?? 0] ??= { id: "", name: "", arguments: "" });
    call.id ||= one.id ?? "";
    call.name += one.function?.name ?? "";
    call.arguments += one.function?.arguments ?? "";
  }
}

// The cost of a request is known once it is recorded, a moment after its answer has ended.
async function costOf(id) {
  for (const wait of [50, 400]) {
    await new Promise((resolve) => setTimeout(resolve, wait));
    const answer = await fetch(`/admin/requests/${encodeURIComponent(id)}`, { cache: "no-store" });
    if (!answer.ok) continue;
    const { cost_usd } = await answer.json();
    if (cost_usd !== null && cost_usd !== undefined) return `$${cost_usd.toFixed(6)}`;
  }
  return "";
}

function requestLink(one, id) {
  const link = document.createElement("a");
  link.href = `/admin/view/requests?id=${encodeURIComponent(id)}`;
  link.textContent = say("request");
  one.querySelector(".facts").append(link);
}

// One answer into a pane; returns the assistant's message, or null if there is none.
async function answerInto(pane, model, body, headers, signal) {
  const one = addMessage(pane, "theirs", "");
  const words = one.querySelector("p");
  const began = performance.now();
  let [text, thoughts, first, usage, answer, failed] = ["", "", null, null, null, ""];
  const calls = [];
  try {
    answer = await fetch("/v1/chat/completions", {
      method: "POST",
      headers,
      body: JSON.stringify({ model, ...body }),
      credentials: "omit",
      signal,
    });
    if (!answer.ok) throw new Error((await answer.json()).error.message);
    for await (const event of events(answer.body)) {
      if (event.error) throw new Error(event.error.message);
      usage = counts(event.usage?.prompt_tokens, event.usage?.completion_tokens) || usage;
      const delta = event.choices?.[0]?.delta ?? {};
      addCalls(calls, delta);
      thoughts += delta.reasoning_content ?? "";
      text += delta.content ?? "";
      if (text || thoughts || calls.length) first ??= performance.now() - began;
      words.textContent = text || thoughts;
      pane.scrollTop = pane.scrollHeight;
    }
  } catch (error) {
    failed = error.name === "AbortError" ? say("Stopped.") : error.message;
    if (error.name !== "AbortError") one.classList.add("failed");
    if (!text) words.textContent = failed;
  }
  const got = (name) => answer?.headers.get(`x-gateway-${name}`);
  const id = got("request-id");
  const spent = [
    ["tag", model],
    ["tag accent", got("variant")],
    ["tag", got("backend")],
    ["", first === null ? "" : say("TTFT {time}", { time: took(first) })],
    ["", took(performance.now() - began)],
    ["", usage ? say("{prompt} + {completion} tokens", usage) : ""],
    ["", text && failed ? say("broken off: {why}", { why: failed }) : ""],
  ];
  facts(one, spent);
  if (id) {
    requestLink(one, id);
    costOf(id).then((cost) => {
      if (!cost) return;
      facts(one, [...spent, ["cost", cost]]);
      requestLink(one, id);
    });
  }
  if (failed && !text) return null;
  const message = { role: "assistant", content: text || null };
  if (calls.length) {
    message.tool_calls = calls.map(({ id, name, arguments: given }) => ({
      id,
      type: "function",
      function: { name, arguments: given },
    }));
  }
  return message;
}

// Fields for the results of calls; `send` gets the messages, and resolves to whether they were
// answered. Without an answer they can be sent again.
function askForResults(pane, calls, send) {
  const box = document.createElement("div");
  box.className = "turn calls";
  const fields = calls.map((call) => {
    const label = document.createElement("label");
    label.textContent = `${call.function.name}(${call.function.arguments})`;
    const field = document.createElement("textarea");
    field.rows = 2;
    field.placeholder = say("the tool's result");
    label.append(field);
    box.append(label);
    return field;
  });
  const button = document.createElement("button");
  button.type = "button";
  button.textContent = say("Send results");
  button.addEventListener("click", async () => {
    const fixed = (value) => {
      button.disabled = value;
      for (const field of fields) field.readOnly = value;
    };
    fixed(true);
    const results = calls.map((call, place) => ({
      role: "tool",
      tool_call_id: call.id,
      content: fields[place].value,
    }));
    if (!(await send(results))) fixed(false);
  });
  box.append(button);
  pane.append(box);
  pane.scrollTop = pane.scrollHeight;
}

// The code of a request. The key is read from the environment, so that none is in a shell's history.
function code(form, kind, messages) {
  const body = { model: form.first.value, messages, ...parameters(form) };
  const address = `${location.origin}/v1`;
  if (kind === "curl") {
    const data = JSON.stringify(body, null, 2).replaceAll("'", "'\\''");
    const key = form.key ? ` -H "authorization: Bearer $STROWGER_API_KEY" \\\n` : "";
    return `curl ${address}/chat/completions \\\n${key} -H 'content-type: application/json' \\\n -d '${data}'\n`;
  }
  const fields = Object.entries(body).map(([name, value]) => `    ${name}=${python(value)},\n`);
  const key = form.key ? `os.environ["STROWGER_API_KEY"]` : `"none"`;
  return (
    `import os\n\nfrom openai import OpenAI\n\n` +
    `client = OpenAI(base_url=${JSON.stringify(address)}, api_key=${key})\n` +
    `answer = client.chat.completions.create(\n${fields.join("")})\n` +
    `print(answer.choices[0].message.content)\n`
  );
}

function python(value) {
  if (value === null) return "None";
  if (value === true) return "True";
  if (value === false) return "False";
  if (Array.isArray(value)) return `[${value.map(python).join(", ")}]`;
  if (typeof value === "object") {
    const entries = Object.entries(value).map(([name, one]) => `${python(name)}: ${python(one)}`);
    return `{${entries.join(", ")}}`;
  }
  return JSON.stringify(value);
}

function playground() {
  const form = document.querySelector("[data-playground]");
  if (!form) return;
  const button = form.querySelector("button.primary");
  const problem = form.querySelector("[data-problem]");
  const panes = { first: {}, second: {} };
  for (const name of ["first", "second"]) {
    panes[name] = { box: form.querySelector(`[data-pane=${name}]`), turns: [] };
    form[name].addEventListener("change", () => {
      if (panes[name].turns.length) {
        addMessage(panes[name].box, "note", say("Another model: a new conversation begins."));
      }
      panes[name].turns = [];
      panes.second.box.hidden = !form.second.value;
    });
  }
  let running = null;
  let steps = 0;

  function complain(text) {
    problem.textContent = text;
    problem.hidden = !text;
  }

  // Whether the conversation goes on: it has an answer to what was added. `turns` is another list
  // once a new conversation has begun; an answer to the old one does not belong there.
  async function turn(name, added) {
    const { box, turns } = panes[name];
    const asked = [...turns, ...added];
    const headers = { "content-type": "application/json" };
    if (form.key?.value) headers.authorization = `Bearer ${form.key.value}`;
    const stream_options = { include_usage: true };
    const body = { messages: withSystem(form, asked), stream: true, stream_options };
    const sent = { ...body, ...parameters(form) };
    const found = await answerInto(box, form[name].value, sent, headers, running.signal);
    if (!found) return false;
    if (panes[name].turns !== turns) return true;
    turns.push(...added, found);
    if (found.tool_calls) {
      askForResults(box, found.tool_calls, (results) => work(() => turn(name, results)));
    }
    return true;
  }

  // Runs a step, and returns what it does. A second click of the button stops all that run.
  async function work(step) {
    complain("");
    running ??= new AbortController();
    steps += 1;
    form.noValidate = true; // the button stops although no message is typed
    button.textContent = say("Stop");
    try {
      return await step();
    } catch (error) {
      complain(error.message);
      return false;
    } finally {
      steps -= 1;
      if (!steps) {
        running = null;
        form.noValidate = false;
        button.textContent = say("Send");
      }
    }
  }

  // A model that has called tools takes their results next; vendors refuse anything else.
  function waits(name) {
    return panes[name].turns.at(-1)?.tool_calls;
  }

  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (running) return running.abort();
    const names = ["first", "second"].filter((name) => form[name].value);
    if (names.some(waits)) {
      return complain(say("Send the results of the tools first, or begin a new conversation."));
    }
    await work(async () => {
      parameters(form);
      const text = form.message.value;
      const message = await userMessage(form);
      const pictured = form.picture.files[0]?.name;
      const shown = pictured ? `${text}\n[${pictured}]` : text;
      for (const name of names) addMessage(panes[name].box, "mine", shown);
      form.message.value = "";
      const answered = await Promise.all(names.map((name) => turn(name, [message])));
      // What nothing has answered is there to be corrected; a picture belongs to one message.
      if (answered.some(Boolean)) form.picture.value = "";
      else form.message.value ||= text;
    });
    form.message.focus({ preventScroll: true });
  });
  form.message.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
      event.preventDefault();
      form.requestSubmit();
    }
  });
  form.querySelector("[data-clear]").addEventListener("click", () => {
    running?.abort();
    complain("");
    for (const pane of Object.values(panes)) {
      pane.box.replaceChildren();
      pane.turns = [];
    }
  });
  for (const one of form.querySelectorAll("[data-snippet]")) {
    one.addEventListener("click", async () => {
      try {
        const last = form.message.value ? [await userMessage(form)] : [];
        const messages = withSystem(form, [...panes.first.turns, ...last]);
        await navigator.clipboard.writeText(code(form, one.dataset.snippet, messages));
        one.textContent = say("Copied");
      } catch (error) {
        complain(error.message);
      }
    });
  }
}

playground();
