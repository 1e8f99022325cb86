"use strict";
// Sliders in; numbers, words and two charts out. Numbers come from tables: see grid.py, whose
// `between` and `readings` these functions repeat.
const facts = JSON.parse(document.getElementById("facts").textContent);
const place = (id) => document.getElementById(id);
const clamp = (value, low, high) => Math.min(Math.max(value, low), high);

function between(table, axes, at) {
  if (axes.length === 0) return table;
  const [{ first, last, count }, ...rest] = axes;
  const step = clamp(((count - 1) * (at[0] - first)) / (last - first), 0, count - 1);
  const low = Math.min(Math.floor(step), count - 2);
  const near = between(table[low], rest, at.slice(1));
  return near + (step - low) * (between(table[low + 1], rest, at.slice(1)) - near);
}

function readings({ h_source, snr_source, h_target, snr_target, degree }) {
  const look = (name, h, snr) =>
    between(facts.tables[name], facts.axes, [h, Math.log(snr), Math.log(degree)]);
  const source = (name) => Math.sinh(look(name, h_source, snr_source));
  const slope = (name) =>
    ((snr_target / snr_source) * Math.sinh(look(name, h_target, snr_target))) / source(name);
  const scale = (2 * snr_source * degree * Math.abs(source("limit"))) / facts.sharp;
  const spread = scale * Math.exp(look("width", h_target, snr_target));
  const mean = scale * Math.abs(2 * h_target - 1);
  const share = (name) => {
    const right = look(name, h_target, snr_target);
    return source("limit") < 0 ? 1 - right : right;
  };
  return {
    limit: slope("limit"),
    finite: slope("finite"),
    loop: slope("loop"),
    "limit accuracy": share("limit accuracy"),
    accuracy: share("accuracy"),
    confidence: between(facts.tables.confidence, facts.logits, [Math.asinh(mean), Math.asinh(spread)]),
  };
}

// --- charts ---

/** Draw lines, each a list of points with a class, between the ends of both axes. */
function chart(id, lines, [left, right], [low, high]) {
  const [width, height] = [560, 260];
  const x = (value) => 40 + ((width - 50) * (value - left)) / (right - left);
  const y = (value) => 10 + ((height - 40) * (high - clamp(value, low, high))) / (high - low);
  const ticks = [0, 1, 2, 3, 4].map((k) => k / 4);
  const parts = ticks.map((k) => {
    const [across, up] = [left + k * (right - left), low + k * (high - low)];
    return (
      `<text x="${x(across)}" y="${height - 8}" text-anchor="middle">${+across.toFixed(2)}</text>` +
      `<text x="34" y="${y(up) + 4}" text-anchor="end">${+up.toFixed(2)}</text>` +
      `<path class="rule" d="M40 ${y(up)}H${width - 10}"/>`
    );
  });
  for (const [name, points] of lines) {
    const path = points.filter(([, value]) => Number.isFinite(value)).map(([a, b]) => `${x(a)} ${y(b)}`);
    if (path.length) parts.push(`<path class="${name}" d="M${path.join("L")}"/>`);
  }
  place(id).innerHTML = `<svg viewBox="0 0 ${width} ${height}" aria-hidden="true">${parts.join("")}</svg>`;
}

const along = (left, right, value) =>
  Array.from({ length: 81 }, (_, k) => left + (k / 80) * (right - left)).map((x) => [x, value(x)]);
const sigmoid = (t) => 1 / (1 + Math.exp(-t));

function draw(state, found) {
  const curves = [["confidence", along(0, 6, sigmoid)]];
  for (const [name, slope] of [["accuracy", found.limit], ["accuracy finite", found.finite]]) {
    curves.push([name, along(0, 6, (t) => sigmoid(slope * t))]);
  }
  chart("curve", curves, [0, 6], [found.limit < 0 ? 0 : 0.5, 1]);
  const slopes = along(0, 1, (h) => readings({ ...state, h_target: h }));
  const line = (name) => slopes.map(([h, at]) => [h, at[name]]);
  const here = [[state.h_target, -1.5], [state.h_target, 2.5]];
  const all = [["accuracy", line("limit")], ["accuracy finite", line("finite")], ["loop", line("loop")]];
  chart("slopes", [...all, ["here", here]], [0, 1], [-1.5, 2.5]);
}

// --- numbers and words ---

function verdict({ h_source }, { finite, accuracy }) {
  if (Math.abs(h_source - 0.5) < 0.005) return "Neighbours carry no signal at the source: nothing to calibrate.";
  const right = `The model is right ${(100 * accuracy).toFixed(1)} % of the time`;
  if (finite <= 0) return `${right}: the target lies beyond the zero crossing, where no temperature helps.`;
  const word = finite < 0.995 ? "over-confident" : finite > 1.005 ? "under-confident" : "calibrated";
  return `${right} and is ${word}; dividing the logits by ${(1 / finite).toFixed(2)} repairs it.`;
}

function update() {
  const state = {};
  for (const input of document.querySelectorAll("input[type=range]")) {
    const value = Number(input.value);
    state[input.id] = input.dataset.log ? Number((10 ** value).toPrecision(3)) : value;
    place(`${input.id}-value`).textContent = state[input.id];
  }
  const found = readings(state);
  const shown = { ...found, temperature: found.finite > 0 ? 1 / found.finite : NaN, gap: found.confidence - found["limit accuracy"] };
  for (const output of document.querySelectorAll("[data-reading]")) {
    const value = Math.abs(state.h_source - 0.5) < 0.005 ? NaN : shown[output.dataset.reading];
    output.dataset.value = value;
    output.textContent = Number.isFinite(value) ? value.toFixed(3) : "–";
  }
  place("verdict").textContent = verdict(state, found);
  draw(state, found);
}

function set(values) {
  for (const [name, value] of Object.entries(values)) {
    const input = place(name);
    if (input) input.value = input.dataset.log ? Math.log10(value) : value;
  }
  update();
}

place("controls").addEventListener("input", (event) => {
  if (event.target.id === "preset") set(facts.presets[event.target.value] ?? {});
  else update();
});
set({ ...facts.presets[Object.keys(facts.presets)[0]], ...Object.fromEntries(new URLSearchParams(location.hash.slice(1))) });
