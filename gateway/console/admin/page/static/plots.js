// The charts: a line follows the pointer, or the arrow keys, and shows the values of its cell. They
// are read from the table below the chart. Without scripts that table and the tooltips remain.
"use strict";

const KEYS = { ArrowLeft: -1, ArrowRight: 1, PageUp: -10, PageDown: 10, Home: -1e9, End: 1e9 };
// Which chart is read, at which cell from the right: the newest stays where it is while cells move.
let reading = null;
let last = 0;

function rowsOf(axes) {
  return axes.closest("figure").querySelectorAll(".values tbody tr");
}

function textOf(axes, row) {
  const heads = axes.closest("figure").querySelectorAll(".values thead th");
  const values = [...row.cells].slice(1).map((cell, place) => [heads[place + 1], cell]);
  const told = values.map(([head, cell]) => `${head.textContent}: ${cell.textContent}`);
  return [row.cells[0].textContent, ...told];
}

function draw(axes, fromRight) {
  const rows = rowsOf(axes);
  const place = Math.max(0, Math.min(rows.length - 1, rows.length - 1 - fromRight));
  const svg = axes.querySelector("svg");
  const wide = svg.viewBox.baseVal.width;
  const x = (place * wide) / Math.max(rows.length - 1, 1);
  let cross = svg.querySelector(".cross");
  if (!cross) {
    cross = document.createElementNS(svg.namespaceURI, "path");
    cross.setAttribute("class", "cross");
    svg.querySelector(".cells").before(cross);
  }
  cross.setAttribute("d", `M${x} 0V${svg.viewBox.baseVal.height}`);
  let box = axes.querySelector(".reading");
  if (!box) {
    box = document.createElement("div");
    box.className = "reading";
    box.setAttribute("aria-hidden", "true");
    axes.append(box);
  }
  const texts = textOf(axes, rows[place]);
  box.replaceChildren(
    ...texts.map((text) => {
      const line = document.createElement("div");
      line.textContent = text;
      return line;
    }),
  );
  box.classList.toggle("left", place > rows.length / 2);
  axes.setAttribute("aria-valuenow", place);
  axes.setAttribute("aria-valuetext", texts.join(", "));
  return rows.length - 1 - place;
}

function clear(axes) {
  axes.querySelector(".cross")?.remove();
  axes.querySelector(".reading")?.remove();
}

function stop() {
  if (reading) clear(reading.axes);
  reading = null;
}

function read(axes, fromRight) {
  if (reading && reading.axes !== axes) clear(reading.axes);
  last = draw(axes, fromRight);
  reading = { name: axes.dataset.plot, axes, fromRight: last };
}

// A chart is a slider over time for those who use a keyboard or a screen reader.
function prepare(axes) {
  if (axes.tabIndex === 0) return;
  const newest = rowsOf(axes).length - 1;
  const svg = axes.querySelector("svg");
  axes.tabIndex = 0;
  axes.setAttribute("role", "slider");
  axes.setAttribute("aria-label", svg.querySelector("title").textContent);
  axes.setAttribute("aria-valuemin", 0);
  axes.setAttribute("aria-valuemax", newest);
  axes.setAttribute("aria-valuenow", newest);
  axes.setAttribute("aria-valuetext", textOf(axes, rowsOf(axes)[newest]).join(", "));
  svg.querySelector("title").remove();
  svg.setAttribute("aria-hidden", "true");
  for (const title of svg.querySelectorAll(".cells title")) title.remove();
}

function prepareAll() {
  document.querySelectorAll(".axes[data-plot]").forEach(prepare);
}

document.addEventListener("pointermove", (event) => {
  const svg = event.target.closest?.(".axes[data-plot] svg");
  if (!svg) {
    if (reading && document.activeElement !== reading.axes) stop();
    return;
  }
  const axes = svg.closest(".axes");
  const rows = rowsOf(axes).length;
  const edge = svg.getBoundingClientRect();
  const place = Math.round(((event.clientX - edge.left) / edge.width) * (rows - 1));
  read(axes, rows - 1 - place);
});

document.addEventListener("focusin", (event) => {
  if (event.target.matches?.(".axes[data-plot]")) read(event.target, reading?.fromRight ?? 0);
});

document.addEventListener("focusout", (event) => {
  if (event.target === reading?.axes && event.target.isConnected) stop();
});

document.addEventListener("keydown", (event) => {
  const axes = event.target;
  if (!axes.matches?.(".axes[data-plot]")) return;
  if (event.key === "Escape") return axes.blur();
  if (!(event.key in KEYS)) return;
  event.preventDefault();
  read(axes, (reading?.fromRight ?? 0) - KEYS[event.key]);
});

// A refresh has replaced the charts: go on reading where it was.
document.addEventListener("strowger:swapped", (event) => {
  prepareAll();
  const name = event.detail ?? reading?.name;
  if (!name || reading?.axes.isConnected) return;
  const axes = document.querySelector(`.axes[data-plot="${CSS.escape(name)}"]`);
  if (!axes) return (reading = null);
  const place = last;
  if (event.detail) axes.focus({ preventScroll: true });
  read(axes, place);
});

document.addEventListener("DOMContentLoaded", prepareAll);
