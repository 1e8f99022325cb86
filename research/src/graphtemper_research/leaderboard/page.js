"use strict";
const facts = JSON.parse(document.getElementById("facts").textContent);
const { columns, words, rows } = facts.table;
const at = Object.fromEntries(columns.map((name, place) => [name, place]));
const word = (row, name) => words[name][row[at[name]]];
const FILTERS = ["setting", "family", "graph", "model"];
const COLUMNS = [
  ["method", "method"], ["kind", "kind"], ["mean", "mean"], ["difference", "against source-T"],
  ["low", "90 % low"], ["high", "90 % high"], ["better", "better in"], ["cells", "cells"],
];
let order = { key: "mean", down: false };

function value(row, metric) {
  if (metric !== "error") {
    const number = row[at[metric]];
    return number === null && metric === "nll" ? Infinity : number;
  }
  const estimate = row[at.estimate];
  return estimate === null ? null : Math.abs(estimate - row[at.accuracy]);
}

const mean = numbers => numbers.reduce((sum, number) => sum + number, 0) / numbers.length;

// Method -> cell -> mean of the metric over the chosen targets.
function byCell(chosen, metric) {
  const found = new Map();
  for (const row of rows) {
    if (word(row, "shift") === facts.unshifted) continue;
    if (FILTERS.some(name => chosen[name] !== "" && String(word(row, name)) !== chosen[name])) continue;
    const number = value(row, metric);
    if (number === null) continue;
    const method = word(row, "method");
    const cell = ["setting", "graph", "model", "seed"].map(name => word(row, name)).join("|");
    if (!found.has(method)) found.set(method, new Map());
    const cells = found.get(method);
    if (!cells.has(cell)) cells.set(cell, []);
    cells.get(cell).push(number);
  }
  for (const cells of found.values()) for (const [cell, numbers] of cells) cells.set(cell, mean(numbers));
  return found;
}

function standings(chosen, metric) {
  const found = byCell(chosen, metric);
  const base = found.get(facts.source) || new Map();
  return [...found].map(([method, cells]) => {
    const pairs = [...cells].filter(([cell]) => base.has(cell)).map(([cell, number]) => [cell, number - base.get(cell)])
      .filter(([, gap]) => Number.isFinite(gap));
    const gaps = pairs.map(([, gap]) => gap);
    const line = { method, kind: facts.kinds[method] || "", mean: mean([...cells.values()]), cells: cells.size };
    line.difference = gaps.length ? mean(gaps) : null;
    line.better = gaps.filter(gap => gap < 0).length;
    line.low = line.high = null;
    // Cells of one graph are not independent: the interval is over graphs.
    const graphs = new Map();
    for (const [cell, gap] of pairs) {
      const graph = cell.split("|").slice(0, 2).join("|");
      graphs.set(graph, [...(graphs.get(graph) || []), gap]);
    }
    const means = [...graphs.values()].map(mean);
    if (means.length > 1) {
      const centre = mean(means);
      const spread = Math.sqrt(means.reduce((sum, gap) => sum + (gap - centre) ** 2, 0) / (means.length - 1));
      const radius = facts.quantiles[means.length - 2] * spread / Math.sqrt(means.length);
      line.low = centre - radius;
      line.high = centre + radius;
    }
    return line;
  });
}

function compare(first, second) {
  const [a, b] = [first[order.key], second[order.key]];
  if (a === b) return first.method < second.method ? -1 : 1;
  if (a === null || b === null) return a === null ? 1 : -1;
  return (a < b ? -1 : 1) * (order.down ? -1 : 1);
}

const shown = (key, number) => {
  if (number === null) return "";
  if (typeof number === "string" || key === "cells" || key === "better") return String(number);
  if (!Number.isFinite(number)) return "infinite";
  return (["difference", "low", "high"].includes(key) && number >= 0 ? "+" : "") + number.toFixed(4);
};

function draw() {
  const chosen = Object.fromEntries(FILTERS.map(name => [name, document.getElementById(name).value]));
  const lines = standings(chosen, document.getElementById("metric").value).sort(compare);
  const head = document.querySelector("#table thead tr");
  head.replaceChildren(...COLUMNS.map(([key, title]) => {
    const place = document.createElement("th");
    place.scope = "col";
    if (order.key === key) place.setAttribute("aria-sort", order.down ? "descending" : "ascending");
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = title;
    button.addEventListener("click", () => {
      order = { key, down: order.key === key && !order.down };
      draw();
    });
    place.append(button);
    return place;
  }));
  document.querySelector("#table tbody").replaceChildren(...lines.map(line => {
    const row = document.createElement("tr");
    row.dataset.method = line.method;
    row.append(...COLUMNS.map(([key]) => {
      const place = document.createElement("td");
      place.textContent = shown(key, line[key]);
      if (typeof line[key] === "number") place.dataset.value = line[key];
      place.dataset.key = key;
      return place;
    }));
    return row;
  }));
  const most = lines.reduce((largest, line) => Math.max(largest, line.cells), 0);
  document.getElementById("count").textContent =
    lines.length ? `${lines.length} methods, up to ${most} cells.` : "No cell was measured for this choice.";
}

function quoted(text) {
  return /[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

function csv() {
  const line = row => columns.map((name, place) => {
    const item = name in words ? words[name][row[place]] : row[place];
    return item === null ? "" : quoted(String(item));
  }).join(",");
  return [columns.join(","), ...rows.map(line)].join("\n") + "\n";
}

for (const name of FILTERS) {
  const box = document.getElementById(name);
  const found = words[name].map(String).sort();
  box.append(new Option("all", ""), ...found.map(text => new Option(text, text)));
  box.addEventListener("change", draw);
}
document.getElementById("setting").value = words.setting[0] || "";
document.getElementById("metric").addEventListener("change", draw);
document.getElementById("filters").addEventListener("submit", event => event.preventDefault());
document.getElementById("download").addEventListener("click", () => {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([csv()], { type: "text/csv" }));
  link.download = "leaderboard_raw.csv";
  link.click();
  URL.revokeObjectURL(link.href);
});
draw();
