// The page at /admin: refreshes the sections that change, switches between dark and light, and
// chats with a model. Texts of models and clients are only ever set as text, never as HTML.
"use strict";

const EVERY_MS = 2000;
const THEMES = ["auto", "light", "dark"];
const root = document.documentElement;

function theme(name) {
  root.dataset.theme = name;
  const button = document.querySelector("[data-theme-switch]");
  if (button) {
    button.hidden = false;
    button.textContent = name[0].toUpperCase() + name.slice(1);
    button.setAttribute("aria-label", `Theme: ${name}`);
  }
}

function remembered() {
  const name = localStorage.getItem("strowger-theme");
  return THEMES.includes(name) ? name : "auto";
}

// Before the first paint, so that a dark page does not flash white.
theme(remembered());

function themeSwitch() {
  theme(remembered());
  document.querySelector("[data-theme-switch]")?.addEventListener("click", () => {
    const next = THEMES[(THEMES.indexOf(root.dataset.theme) + 1) % THEMES.length];
    localStorage.setItem("strowger-theme", next);
    theme(next);
  });
}

// A section with selected text is being read: it is not replaced until the next refresh.
function swap(fresh) {
  const old = document.getElementById(fresh.id);
  const selection = getSelection();
  const read = selection && !selection.isCollapsed && old?.contains(selection.anchorNode);
  if (!old || read || old.outerHTML === fresh.outerHTML) return;
  const focused = old.contains(document.activeElement)
    ? document.activeElement.closest("details")?.id
    : null;
  for (const open of old.querySelectorAll("details[open]")) {
    fresh.querySelector(`#${CSS.escape(open.id)}`)?.setAttribute("open", "");
  }
  old.replaceWith(fresh);
  if (focused) document.querySelector(`#${CSS.escape(focused)} > summary`)?.focus();
}

function live() {
  if (!document.querySelector("[data-live]")) return;
  const button = document.querySelector("[data-pause]");
  const query = new URLSearchParams(location.search).get("window");
  const address = query ? `/admin/live?window=${encodeURIComponent(query)}` : "/admin/live";
  let paused = false;
  let timer = 0;

  async function refresh() {
    clearTimeout(timer);
    if (document.hidden || paused) return;
    try {
      const answer = await fetch(address, { cache: "no-store" });
      if (answer.status === 401) return location.assign("/admin/sign-in");
      if (!answer.ok) throw new Error(answer.status);
      const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
      for (const section of fresh.querySelectorAll("[data-live]")) {
        swap(document.adoptNode(section));
      }
      root.classList.remove("stale");
    } catch {
      root.classList.add("stale");
    }
    clearTimeout(timer);
    timer = setTimeout(refresh, EVERY_MS);
  }

  button.hidden = false;
  button.addEventListener("click", () => {
    paused = !paused;
    button.textContent = paused ? "Resume" : "Pause";
    refresh();
  });
  document.addEventListener("visibilitychange", refresh);
  timer = setTimeout(refresh, EVERY_MS);
}

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

// The gateway's APIs: the path and body of a question, and the text and counts in an event.
const APIS = {
  chat: {
    path: "/v1/chat/completions",
    body: (model, messages, user) => {
      const stream_options = { include_usage: true };
      return { model, messages, user, stream: true, stream_options };
    },
    text: (event) => event.choices?.[0]?.delta?.content,
    usage: ({ usage }) => usage && [usage.prompt_tokens, usage.completion_tokens],
  },
  messages: {
    path: "/v1/messages",
    body: (model, messages, user) => {
      const metadata = user ? { user_id: user } : undefined;
      return { model, messages, metadata, stream: true, max_tokens: 4096 };
    },
    text: (event) => (event.delta?.type === "text_delta" ? event.delta.text : ""),
    usage: ({ type, usage }) =>
      type === "message_delta" && usage && [usage.input_tokens, usage.output_tokens],
  },
  responses: {
    path: "/v1/responses",
    body: (model, input, user) => ({ model, input, user, stream: true, store: false }),
    text: (event) => (event.type === "response.output_text.delta" ? event.delta : ""),
    usage: ({ response }) =>
      response?.usage && [response.usage.input_tokens, response.usage.output_tokens],
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
      ["", attempts > 1 ? `${attempts} attempts` : ""],
      ["", first === null ? "" : `TTFT ${took(first)}`],
      ["", usage ? `${usage[0]} + ${usage[1]} tokens` : ""],
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
    words.textContent = text || (error.name === "AbortError" ? "Stopped." : error.message);
    showFacts([["", text && error.name !== "AbortError" ? `broken off: ${error.message}` : ""]]);
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
    button.textContent = "Stop";
    const question = form.message.value;
    form.message.value = "";
    addMessage(log, "mine", question);
    turns.push({ role: "user", content: question });
    const text = await ask(form, log, turns, running.signal);
    if (text) turns.push({ role: "assistant", content: text });
    else turns.pop();
    running = null;
    button.textContent = "Send";
    form.message.focus({ preventScroll: true });
  });
}

// Copies a new secret. Without a secure connection browsers have no clipboard: select it instead.
function copyButtons() {
  for (const button of document.querySelectorAll("[data-copy]")) {
    const field = document.getElementById(button.dataset.copy);
    button.hidden = false;
    button.addEventListener("click", async () => {
      field.select();
      try {
        await navigator.clipboard.writeText(field.value);
        button.textContent = "Copied";
      } catch {
        button.textContent = document.execCommand("copy") ? "Copied" : "Press Ctrl+C";
      }
    });
  }
}

document.addEventListener("DOMContentLoaded", () => {
  themeSwitch();
  copyButtons();
  live();
  talk();
});
