// The page at /admin: refreshes the sections that change, switches between dark and light, and
// copies secrets. Its sentences are in script_words.py, too.
"use strict";

const THEMES = ["auto", "light", "dark"];
const CHOSEN = ["window", "quantile", "model", "backend", "key", "team"];
const root = document.documentElement;
const WORDS = JSON.parse(root.dataset.words || "{}");

// A sentence in the reader's language, with values for its {names}.
function say(sentence, values = {}) {
  return (WORDS[sentence] ?? sentence).replace(/\{(\w+)\}/g, (_, name) => values[name]);
}

function theme(name) {
  root.dataset.theme = name;
  const button = document.querySelector("[data-theme-switch]");
  if (button) {
    button.hidden = false;
    button.textContent = say("Theme: {name}", { name: say(name) });
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

// What stands for an element of an old section in the new one; null if it is gone. Elements without
// an id are the same by what they lead to, then by their text, then by their place if none came or went.
function counterpart(one, old, fresh) {
  if (one.id) return fresh.querySelector(`#${CSS.escape(one.id)}`);
  const were = [...old.querySelectorAll(one.tagName)];
  const are = [...fresh.querySelectorAll(one.tagName)];
  for (const mark of [(each) => each.getAttribute("href"), (each) => each.textContent]) {
    const alike = (each) => mark(each) && mark(each) === mark(one);
    const found = are.filter(alike)[were.filter(alike).indexOf(one)];
    if (found) return found;
  }
  return were.length === are.length ? are[were.indexOf(one)] : null;
}

// A section with selected text is being read: it is not replaced until the next refresh. What is
// open stays open, and the focus stays where it is; if that is gone, it stays in the section.
function swap(fresh) {
  const old = document.getElementById(fresh.id);
  const selection = getSelection();
  const read = selection && !selection.isCollapsed && old?.contains(selection.anchorNode);
  if (!old || read || old.outerHTML === fresh.outerHTML) return;
  const active = document.activeElement;
  const held = old.contains(active);
  for (const open of old.querySelectorAll("details[open]")) {
    counterpart(open, old, fresh)?.setAttribute("open", "");
  }
  const plot = held ? active.dataset.plot : null;
  const focused = held && !plot ? (counterpart(active, old, fresh) ?? fresh) : null;
  old.replaceWith(fresh);
  document.dispatchEvent(new CustomEvent("strowger:swapped", { detail: plot }));
  if (focused === fresh) fresh.tabIndex = -1;
  focused?.focus({ preventScroll: true });
}

function state() {
  return document.getElementById("state");
}

// The title and the icon of the tab say so when something is wrong.
function marked() {
  const bad = state().classList.contains("bad");
  const title = document.title.replace(/^● /, "");
  document.title = bad ? `● ${title}` : title;
  const icon = document.querySelector("link[rel=icon]");
  icon.href = bad ? "/admin/static/icon-bad.svg" : "/admin/static/icon.svg";
}

// Where the sections that change come from: of the overview, of another view, or the frame's only.
function liveAddress(section) {
  if (!section) return "/admin/live/frame";
  if (location.pathname !== "/admin") return location.href;
  const asked = [...new URLSearchParams(location.search)].filter(([name]) => CHOSEN.includes(name));
  return asked.length ? `/admin/live?${new URLSearchParams(asked)}` : "/admin/live";
}

function live() {
  if (!document.querySelector("#state")) return;
  const button = document.querySelector("[data-pause]");
  const section = document.querySelector("main > [data-live]:not(.problems)");
  const every = (section?.dataset.every ?? 2) * 1000;
  const address = liveAddress(section);
  let paused = false;
  let timer = 0;

  async function refresh() {
    clearTimeout(timer);
    if (document.hidden || paused) return;
    try {
      const answer = await fetch(address, { cache: "no-store" });
      if (answer.status === 401 || answer.redirected) return location.assign("/admin/sign-in");
      if (!answer.ok) throw new Error(answer.status);
      const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
      for (const section of fresh.querySelectorAll("[data-live]")) {
        swap(document.adoptNode(section));
      }
      root.classList.remove("stale");
      marked();
    } catch {
      root.classList.add("stale");
      state().dataset.stale = say("no response, showing old data");
    }
    clearTimeout(timer);
    timer = setTimeout(refresh, every);
  }

  button.hidden = false;
  button.addEventListener("click", () => {
    paused = !paused;
    button.textContent = paused ? say("Resume") : say("Pause");
    refresh();
  });
  document.addEventListener("visibilitychange", refresh);
  marked();
  timer = setTimeout(refresh, every);
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
        button.textContent = say("Copied");
      } catch {
        const copied = document.execCommand("copy");
        button.textContent = copied ? say("Copied") : say("Press Ctrl+C");
      }
    });
  }
}

document.addEventListener("DOMContentLoaded", () => {
  themeSwitch();
  copyButtons();
  live();
});
