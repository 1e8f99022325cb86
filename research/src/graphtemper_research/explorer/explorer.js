// The page: sliders in, numbers, words and charts out; the state lives in the address.
import { COARSE, finiteRow, limitRows, measuredRows } from "./drawing.js";
import { finiteCurve, finiteReadings, finiteSource, limitReadings } from "./readings.js";
import { sayVerdict, show } from "./wording.js";

const place = (id) => document.getElementById(id);
const facts = JSON.parse(place("facts").textContent);
const camel = (name) => name.replace(/_(\w)/g, (_, letter) => letter.toUpperCase());
const camelKeys = (object) =>
  Object.fromEntries(Object.entries(object).map(([name, value]) => [camel(name), value]));
// Milliseconds of slow computing between two looks at the sliders, and of rest before speaking.
const SLICE = 12;
const REST = 500;

const runs = [];
let state = camelKeys(facts.start);
let views = null;
let turn = 0;
let resting = 0;

// --- controls ---

const onSlider = (control, value) =>
  control.scale === "log"
    ? Math.round((200 * Math.log(value / control.least)) / Math.log(control.most / control.least))
    : value;

function fromSlider(control, position) {
  if (control.scale !== "log") return Number(position.toFixed(4));
  const value = control.least * (control.most / control.least) ** (position / 200);
  return Math.min(Math.max(Number(value.toPrecision(3)), control.least), control.most);
}

const allowed = (control, value) =>
  Number.isFinite(value) &&
  value >= control.least &&
  value <= control.most &&
  (control.name !== "num_classes" || Number.isInteger(value));

function showControls(except) {
  for (const control of facts.controls) {
    const value = state[camel(control.name)];
    const slider = place(`${control.name}-slider`);
    const number = place(control.name);
    slider.value = onSlider(control, value);
    slider.setAttribute("aria-valuetext", String(value));
    if (number !== except) number.value = value;
    number.removeAttribute("aria-invalid");
  }
  place("problem").textContent = "";
  const preset = Object.entries(facts.presets).find(([, { state: values }]) =>
    Object.entries(values).every(([name, value]) => state[camel(name)] === value),
  );
  // Two figures may share a state; the one that was chosen stays.
  const chosen = facts.presets[place("preset").value];
  const unchanged = chosen && Object.entries(chosen.state).every(([name, v]) => state[camel(name)] === v);
  if (!unchanged) place("preset").value = preset ? preset[0] : "";
  const shown = facts.presets[place("preset").value];
  place("preset-note").textContent = shown ? shown.note : "Choose one to load its settings.";
}

function change(next, except) {
  state = { ...state, ...next };
  showControls(except);
  update();
}

for (const control of facts.controls) {
  const name = camel(control.name);
  const slider = place(`${control.name}-slider`);
  slider.addEventListener("input", () => change({ [name]: fromSlider(control, slider.valueAsNumber) }));
  const number = place(control.name);
  number.addEventListener("input", () => {
    if (allowed(control, number.valueAsNumber)) {
      change({ [name]: number.valueAsNumber }, number);
      return;
    }
    number.setAttribute("aria-invalid", "true");
    const whole = control.name === "num_classes" ? "an integer" : "a number";
    place("problem").textContent =
      `${control.label}: give ${whole} between ${control.least} and ${control.most}.`;
  });
  number.addEventListener("blur", () => {
    const typed = number.getAttribute("aria-invalid") ? number.value || "That" : "";
    if (!typed) return;
    showControls();
    place("problem").textContent =
      `${control.label}: ${typed} is not between ${control.least} and ${control.most}; ` +
      `${state[name]} is kept.`;
  });
}
place("controls").addEventListener("submit", (event) => event.preventDefault());
place("reset").addEventListener("click", () => change(camelKeys(facts.start)));
place("preset").addEventListener("change", (event) => {
  const preset = facts.presets[event.target.value];
  if (preset) change(camelKeys(preset.state));
  else showControls();
});

// --- the address ---

const address = () =>
  `#${facts.controls.map(({ key, name }) => `${key}=${state[camel(name)]}`).join("&")}`;

function readAddress() {
  const given = new URLSearchParams(location.hash.slice(1));
  const next = {};
  for (const control of facts.controls) {
    const text = given.get(control.key);
    if (text !== null && text.trim() !== "" && allowed(control, Number(text))) {
      next[camel(control.name)] = Number(text);
    }
  }
  return next;
}

addEventListener("hashchange", () => {
  if (location.hash !== address() && location.hash.includes("=")) change(readAddress());
});
place("copy").addEventListener("click", async () => {
  history.replaceState(null, "", address());
  try {
    await navigator.clipboard.writeText(location.href);
    place("copied").textContent = "Link copied.";
  } catch {
    place("copied").textContent = "The address bar has the link.";
  }
});

// --- numbers, words and charts ---

function put(chart, data) {
  if (views) for (const [name, rows] of Object.entries(data)) views[chart].data(name, rows);
}

function redraw(...charts) {
  if (views) for (const name of charts) views[name].run();
}

function update() {
  turn += 1;
  document.documentElement.dataset.numbers = "working";
  const started = turn;
  requestAnimationFrame(() => {
    if (started === turn) follow(started);
  });
}

function follow(started) {
  const found = { ...limitReadings(state), classZeroCrossing: 1 / state.numClasses };
  show(found, camel);
  const { data, ends } = limitRows(state, found, facts.largestLogit);
  for (const [chart, rows] of Object.entries(data)) put(chart, rows);
  for (const [chart, rows] of Object.entries(measuredRows(state, runs))) put(chart, rows);
  // The old dashed lines belong to other settings.
  for (const chart of ["curve", "slopes", "errors"]) put(chart, { finite: [] });
  if (views) {
    for (const [chart, signals] of Object.entries(ends)) {
      for (const [name, value] of Object.entries(signals)) views[chart].signal(name, value);
    }
  }
  redraw("curve", "slopes", "errors", "signal");
  setTimeout(() => slowly(started, finiteWork(found)), 0);
}

function speak(verdict) {
  place("verdict").dataset.tone = verdict.tone;
  place("verdict-word").textContent = verdict.word;
  place("verdict-sentence").textContent = verdict.sentence;
  clearTimeout(resting);
  resting = setTimeout(() => {
    place("spoken").textContent = `${verdict.word} ${verdict.sentence}`;
    if (location.hash !== address()) history.replaceState(null, "", address());
  }, REST);
}

/** The finite-degree numbers with the words about them, then their curves, one point at a time. */
function* finiteWork(limit) {
  const source = finiteSource(state);
  const found = finiteReadings(state, source);
  show(found, camel);
  speak(sayVerdict(state, { ...limit, ...found }));
  put("curve", { finite: finiteCurve(state, source, facts.largestLogit) });
  redraw("curve");
  yield;
  const rows = [];
  for (const h of COARSE) {
    rows.push(finiteRow(h, finiteReadings({ ...state, hTarget: h }, source)));
    yield;
  }
  put("slopes", { finite: rows });
  put("errors", { finite: rows });
  redraw("slopes", "errors");
}

function slowly(started, work) {
  const start = performance.now();
  while (performance.now() - start < SLICE) {
    if (started !== turn) return;
    if (work.next().done) {
      if (views) document.documentElement.dataset.numbers = "ready";
      return;
    }
  }
  setTimeout(() => slowly(started, work), 0);
}

// --- simulation, where a server is there ---

async function simulate() {
  const [asked, button, message] = [state, place("simulate"), place("simulated")];
  const question = { num_nodes: place("num_nodes").valueAsNumber, seed: place("seed").valueAsNumber };
  for (const { name } of facts.controls) question[name] = asked[camel(name)];
  button.disabled = true;
  message.textContent = "Drawing graphs …";
  try {
    const answer = await fetch("/simulate", {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify(question),
    });
    const content = await answer.json();
    if (!answer.ok) throw new Error(content.error);
    runs.push({ state: asked, measured: content.measured });
    const { accuracy, ece, noise_floor: floor, slope } = content.measured;
    const shown = slope === null ? "no finite 1/T" : `1/T ${slope.toFixed(3)}`;
    message.textContent =
      `Measured: ${shown}, accuracy ${accuracy.toFixed(3)}, ECE ${ece.toFixed(3)} ` +
      `(${floor.toFixed(3)} if it were calibrated).`;
  } catch (error) {
    message.textContent = `No simulation: ${error.message}`;
  }
  button.disabled = false;
  for (const [chart, rows] of Object.entries(measuredRows(state, runs))) put(chart, rows);
  redraw("curve", "slopes", "errors", "signal");
}
if (facts.simulate) place("simulate").addEventListener("click", simulate);

// --- start ---

async function start() {
  // ast: expressions are interpreted, so that the page needs no permission to evaluate code.
  const options = { mode: "vega-lite", renderer: "svg", actions: false, ast: true };
  change(readAddress());
  const places = [...document.querySelectorAll("[data-chart]")];
  const drawn = await Promise.all(
    places.map((where) => vegaEmbed(where, facts.charts[where.dataset.chart], options)),
  );
  views = Object.fromEntries(places.map((where, k) => [where.dataset.chart, drawn[k].view]));
  const small = matchMedia("(max-width: 56rem)");
  const fit = () => views.curve.height(small.matches ? 130 : facts.charts.curve.height).run();
  small.addEventListener("change", fit);
  fit();
  update();
}
start();
