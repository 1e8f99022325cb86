// Rows of the four charts: pure functions of a state, its readings and what was simulated.
import { limitReadings } from "./readings.js";
import { confidenceAccuracyCurve, signalCoefficient } from "./theory.js";

const MEAN = "var(--truth)";
const SELF_LOOP = "var(--target)";
const CONFIDENCE = "var(--before)";
const STEPS = 100;

/** Target homophilies at which slow, finite-degree curves are computed. */
export const COARSE = Array.from({ length: 41 }, (_, k) => k / 40);

/** Everything that is cheap enough to follow a slider: { chart: { data: rows } } and scale ends. */
export function limitRows(state, found, largestLogit) {
  const along = Array.from({ length: STEPS + 1 }, (_, k) => {
    const h = k / STEPS;
    return { h, ...limitReadings({ ...state, hTarget: h }) };
  });
  const curve = Array.from({ length: STEPS + 1 }, (_, k) => {
    const t = (k / STEPS) * largestLogit;
    // Without a slope the gap closes instead of dropping to zero.
    return { t, ...confidenceAccuracyCurve(t, found.slope ?? 1) };
  });
  const slopes = along.map(({ h, slope, slopeSelfLoop }) => ({ h, mean: slope, selfLoop: slopeSelfLoop }));
  const errors = along.map(({ h, ece, eceBound }) => ({ h, ece, eceBound }));
  const places = namedPlaces(state);
  return {
    data: {
      curve: { curve },
      slopes: { slopes, places, here: slopesHere(state, found), crossings: crossings(found) },
      errors: { errors, places, here: errorHere(state, found) },
      signal: { places, ...signalRows(state) },
    },
    ends: {
      curve: { low: found.slope !== null && found.slope < 0 ? 0 : 0.45 },
      slopes: slopeEnds(slopes, found),
      errors: { high: errorEnd(found) },
    },
  };
}

/** One point of the finite-degree curves. */
export function finiteRow(h, { finiteSlope, finiteSlopeSelfLoop, finiteEce }) {
  return { h, finiteSlope, finiteSlopeSelfLoop, finiteEce };
}

/** Simulated points that belong on the charts of a state. */
export function measuredRows(state, runs) {
  const same = (other, ...names) => names.every((name) => other[name] === state[name]);
  const family = runs.filter((run) => same(run.state, "hSource", "snr", "degree", "gamma"));
  const exact = family.filter((run) => run.state.hTarget === state.hTarget);
  const last = exact[exact.length - 1];
  return {
    curve: {
      points: (last ? last.measured.curve : []).map((row) => ({
        ...row,
        least: Math.max(row.accuracy - 2 * row.error, 0),
        most: Math.min(row.accuracy + 2 * row.error, 1),
      })),
    },
    slopes: {
      measured: family.flatMap(({ state: { hTarget: h }, measured }) => [
        { h, slope: measured.slope, operator: "mean", colour: MEAN },
        { h, slope: measured.slope_self_loop, operator: "self-loop", colour: SELF_LOOP },
      ]),
    },
    errors: {
      measured: family.map((run) => ({ h: run.state.hTarget, ece: run.measured.ece, colour: CONFIDENCE })),
    },
    signal: {
      measured: runs
        .filter((run) => run.state.numClasses === state.numClasses)
        .map((run) => ({ h: run.state.hTarget, signal: run.measured.signal, colour: MEAN })),
    },
  };
}

/** Where source and target stand; near each other, their names point away from each other. */
function namedPlaces({ hSource, hTarget }) {
  if (hSource === hTarget) return [{ h: hTarget, name: "source = target", align: "center" }];
  const near = Math.abs(hSource - hTarget) < 0.2;
  const align = (own, other) => (!near ? "center" : own < other ? "right" : "left");
  // At the right edge a name that points outwards would leave the page.
  const name = (text, own, other) => (near && own > other && own > 0.88 ? "" : text);
  return [
    { h: hSource, name: name("source", hSource, hTarget), align: align(hSource, hTarget) },
    { h: hTarget, name: name("target", hTarget, hSource), align: align(hTarget, hSource) },
  ];
}

function slopesHere({ hTarget: h }, { slope, slopeSelfLoop }) {
  return [
    { h, slope: slopeSelfLoop, operator: "self-loop", colour: SELF_LOOP },
    { h, slope, operator: "mean", colour: MEAN },
  ].filter((row) => row.slope !== null);
}

function crossings({ slope, slopeSelfLoop, selfLoopZeroCrossing: h }) {
  const rows = [];
  if (slope !== null) rows.push({ h: 0.5, slope: 0, colour: MEAN });
  if (slopeSelfLoop !== null && h >= 0) rows.push({ h, slope: 0, colour: SELF_LOOP });
  return rows;
}

function errorHere({ hTarget: h }, { ece }) {
  return ece === null ? [] : [{ h, ece, colour: CONFIDENCE }];
}

function signalRows({ hSource, hTarget, numClasses }) {
  const at = (h) => signalCoefficient(h, numClasses);
  return {
    signal: [0, 1].map((h) => ({ h, signal: at(h) })),
    crossings: [{ h: 1 / numClasses, signal: 0, colour: MEAN }],
    here: [
      { h: hSource, signal: at(hSource), name: "source", colour: "var(--muted)" },
      { h: hTarget, signal: at(hTarget), name: "target", colour: MEAN },
    ],
  };
}

/** Ends of the slope axis: what matters here, not the far ends of the curves. */
function slopeEnds(slopes, found) {
  const here = [found.slope, found.slopeSelfLoop].filter((value) => value !== null);
  const all = slopes.flatMap((row) => [row.mean, row.selfLoop]).filter((value) => value !== null);
  const high = Math.min(Math.max(1.2, ...all), Math.max(2.5, ...here.map((value) => 1.4 * value)));
  const low = Math.max(Math.min(-0.2, ...all), Math.min(-1.2, ...here.map((value) => 1.4 * value)));
  return { low, high };
}

/** End of the error axis: the error here and the bound, as far as it says anything. */
function errorEnd({ ece, eceBound }) {
  return Math.min(Math.max(0.1, 2.5 * (ece ?? 0.4), 1.2 * (eceBound ?? 0)), 1);
}
