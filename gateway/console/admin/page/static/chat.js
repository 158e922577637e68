// Chats with a model, as any client of the gateway. Texts of models and clients are only ever set
// as text, never as HTML.
"use strict";

// Server-sent events of one response: the JSON of each `data:` line.
async function* events(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let held = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    held += value;
    const lines = held.split("\n");
    held = lines.pop();
    for (const line of lines) {
      if (!line.startsWith("data:")) continue;
      const data = line.slice(5).trim();
      if (data === "[DONE]") return;
      yield JSON.parse(data);
    }
  }
}

function addMessage(log, kind, text) {
  const one = document.createElement("div");
  one.className = `turn ${kind}`;
  const words = document.createElement("p");
  words.textContent = text;
  one.append(words);
  log.querySelector(".empty")?.remove();
  log.append(one);
  log.scrollTop = log.scrollHeight;
  return one;
}

function facts(one, list) {
  const row = document.createElement("div");
  row.className = "facts";
  for (const [kind, text] of list) {
    if (!text) continue;
    const mark = document.createElement("span");
    mark.className = kind;
    mark.textContent = text;
    row.append(mark);
  }
  one.querySelector(".facts")?.remove();
  one.append(row);
}

function took(ms) {
  return ms < 1000 ? `${Math.round(ms)} ms` : `${(ms / 1000).toFixed(1)} s`;
}

function counts(prompt, completion) {
  return prompt === undefined ? null : { prompt, completion };
}

// The gateway's APIs: the path and body of a question, and the text and counts in an event.
const APIS = {
  chat: {
    path: "/v1/chat/completions",
    body: (model, messages, user) => {
      const stream_options = { include_usage: true };
      return { model, messages, user, stream: true, stream_options };
    },
    text: (event) => event.choices?.[0]?.delta?.content,
    usage: ({ usage }) => counts(usage?.prompt_tokens, usage?.completion_tokens),
  },
  messages: {
    path: "/v1/messages",
    body: (model, messages, user) => {
      const metadata = user ? { user_id: user } : undefined;
      return { model, messages, metadata, stream: true, max_tokens: 4096 };
    },
    text: (event) => (event.delta?.type === "text_delta" ? event.delta.text : ""),
    usage: ({ type, usage }) =>
      type === "message_delta" && counts(usage?.input_tokens, usage?.output_tokens),
  },
  responses: {
    path: "/v1/responses",
    body: (model, input, user) => ({ model, input, user, stream: true, store: false }),
    text: (event) => (event.type === "response.output_text.delta" ? event.delta : ""),
    usage: ({ response }) =>
      counts(response?.usage?.input_tokens, response?.usage?.output_tokens),
  },
};

async function ask(form, log, turns, signal) {
  const began = performance.now();
  const headers = { "content-type": "application/json" };
  if (form.key?.value) headers.authorization = `Bearer ${form.key.value}`;
  const one = addMessage(log, "theirs", "");
  const words = one.querySelector("p");
  const api = APIS[form.api.value];
  const user = form.user?.value.trim() || undefined;
  if (user) {
    for (const name of form.user.dataset.headers.split(" ").filter(Boolean)) headers[name] = user;
  }
  let text = "";
  let first = null;
  let usage = null;
  let answer = null;

  function showFacts(extra) {
    const got = (name) => answer?.headers.get(`x-gateway-${name}`);
    const attempts = Number(got("attempts") || 1);
    facts(one, [
      ["tag accent", got("variant")],
      ["tag", got("backend")],
      ["", attempts > 1 ? say("{count} attempts", { count: attempts }) : ""],
      ["", first === null ? "" : say("TTFT {time}", { time: took(first) })],
      ["", usage ? say("{prompt} + {completion} tokens", usage) : ""],
      ...extra,
    ]);
  }

  try {
    answer = await fetch(api.path, {
      method: "POST",
      headers,
      body: JSON.stringify(api.body(form.model.value, turns, user)),
      credentials: "omit",
      signal,
    });
    if (!answer.ok) throw new Error((await answer.json()).error.message);
    for await (const event of events(answer.body)) {
      if (event.error) throw new Error(event.error.message);
      usage = api.usage(event) || usage;
      const piece = api.text(event);
      if (!piece) continue;
      first ??= performance.now() - began;
      text += piece;
      words.textContent = text;
      log.scrollTop = log.scrollHeight;
    }
    showFacts([["", took(performance.now() - began)]]);
  } catch (error) {
    if (error.name !== "AbortError") one.classList.add("failed");
    words.textContent = text || (error.name === "AbortError" ? say("Stopped.") : error.message);
    const broken = text && error.name !== "AbortError";
    showFacts([["", broken ? say("broken off: {why}", { why: error.message }) : ""]]);
  }
  log.scrollTop = log.scrollHeight;
  return text;
}

function talk() {
  const form = document.querySelector("[data-talk]");
  if (!form) return;
  const log = form.querySelector("[data-log]");
  const button = form.querySelector("button");
  let turns = [];
  let running = null;
  form.model.addEventListener("change", () => (turns = []));
  form.message.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
      event.preventDefault();
      form.requestSubmit();
    }
  });
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (running) return running.abort();
    running = new AbortController();
    form.noValidate = true; // the button stops although no message is typed
    button.textContent = say("Stop");
    const question = form.message.value;
    form.message.value = "";
    addMessage(log, "mine", question);
    turns.push({ role: "user", content: question });
    const text = await ask(form, log, turns, running.signal);
    if (text) turns.push({ role: "assistant", content: text });
    else turns.pop();
    running = null;
    form.noValidate = false;
    button.textContent = say("Send");
    form.message.focus({ preventScroll: true });
  });
}

talk();
