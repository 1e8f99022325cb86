// graphtemper.finite_degree and its tables: Poisson degrees, Binomial neighbours, Gaussian noise.
// The same windows, strides and grid as in Python, so that the numbers agree to rounding.
import { expit, gaussLegendre, logFactorial, ndtr, xlogy } from "./special.js";

const NEGLIGIBLE = 1e-16;
const DEVIATIONS = 9;
const POINTS_PER_SD = 4;
const STEP = 0.7;
const LARGEST_RATE = 600;
const LARGEST_GRID = 50000;
// Grid cells after which the recurrence of a Gaussian is started afresh: rounding stays below 1e-13.
const RESTART = 32;
// Quadrature of the calibration error, as in Python: width of a panel in units of the narrowest
// Gaussian, and of the sigmoid where it bends; halvings that locate a change of sign.
const rule = (({ nodes, weights }) => ({ nodes: [...nodes], weights: [...weights] }))(
  gaussLegendre(16),
);
const PANEL = 4;
const BEND = 8;
const BENDS = 5;
const ROOT_ROUNDS = 24;
const NEGLIGIBLE_SHARE = 1e-13;

/** Scale of the aggregated coordinate that minimises the population NLL. */
export function optimalScale(h, snr, degree, selfLoop = false) {
  if (h === 0.5 && !selfLoop) return 0;
  return lawScale(aggregatedLaw(h, snr, degree, selfLoop));
}

/** Accuracy of the sign of the aggregated coordinate. */
export function finiteDegreeAccuracy(h, snr, degree, selfLoop = false) {
  return aggregatedLaw(h, snr, degree, selfLoop).accuracy;
}

/** Population ECE of logits scale * g under a law: panels of Gauss-Legendre nodes from the kink at 0. */
export function lawEce(law, scale) {
  const size = Math.abs(scale);
  const gap = (t) => {
    const [right, wrong] = [density(law, t), density(law, -t)];
    const [own, other] = scale < 0 ? [wrong, right] : [right, wrong];
    return expit(size * t) * other - expit(-size * t) * own;
  };
  const edges = panelEdges(law, size);
  let sum = 0;
  for (let k = 1; k < edges.length; k += 1) sum += absoluteIntegral(gap, edges[k - 1], edges[k]);
  return sum;
}

/** Density of a law at a point; isolated nodes, all at zero, are not part of it. */
function density({ rows }, point) {
  let sum = 0;
  for (const { centres, chance, precision, share, reach } of rows) {
    if (Math.abs(point) > reach || share < NEGLIGIBLE_SHARE) continue;
    let row = 0;
    for (let c = 0; c < centres.length; c += 1) {
      const u = (point - centres[c]) * precision;
      if (u < DEVIATIONS && u > -DEVIATIONS) row += chance[c] * Math.exp(-0.5 * u * u);
    }
    sum += row * share * precision;
  }
  return sum / Math.sqrt(2 * Math.PI);
}

/** Ends of panels that resolve the Gaussians everywhere and the sigmoid where it bends. */
function panelEdges({ reach, finest }, size) {
  const count = Math.ceil((reach * finest) / PANEL);
  const edges = Array.from({ length: count + 1 }, (_, k) => (k * reach) / count);
  for (let k = 1; k <= BENDS; k += 1) if ((k * BEND) / size < reach) edges.push((k * BEND) / size);
  return edges.sort((left, right) => left - right);
}

/** Integral of |gap| over a panel, which is cut where the gap changes sign. */
function absoluteIntegral(gap, low, high) {
  const width = high - low;
  // Both ends count as nodes of weight zero: no change of sign between two panels is overlooked.
  const shares = [0, ...rule.nodes.map((x) => 0.5 * (x + 1)), 1];
  const values = shares.map((share) => gap(low + width * share));
  const roots = [];
  for (let k = 1; k < shares.length; k += 1) {
    if (values[k - 1] * values[k] < 0) {
      roots.push(root(gap, low + width * shares[k - 1], low + width * shares[k]));
    }
  }
  if (!roots.length) {
    return Math.abs(width * rule.weights.reduce((sum, w, k) => sum + 0.5 * w * values[k + 1], 0));
  }
  const cuts = [low, ...roots, high];
  let sum = 0;
  for (let k = 1; k < cuts.length; k += 1) {
    const [left, part] = [cuts[k - 1], cuts[k] - cuts[k - 1]];
    const whole = rule.weights.reduce(
      (total, w, j) => total + 0.5 * w * gap(left + 0.5 * part * (rule.nodes[j] + 1)),
      0,
    );
    sum += Math.abs(part * whole);
  }
  return sum;
}

/** Where a function changes sign, by halving. */
function root(gap, low, high) {
  const sign = Math.sign(gap(low));
  let [left, right] = [low, high];
  for (let round = 0; round < ROOT_ROUNDS; round += 1) {
    const middle = 0.5 * (left + right);
    if (Math.sign(gap(middle)) === sign) left = middle;
    else right = middle;
  }
  return 0.5 * (left + right);
}

/** Points (t, Pr(correct | t)) of logits scale * g under a law, for t up to a little over a limit. */
export function lawCurve(law, scale, limit) {
  const { values, weights } = law;
  const last = values.length - 1;
  const points = [{ t: 0, accuracy: 0.5 }];
  for (let k = values.length >> 1; k <= last; k += 1) {
    const t = Math.abs(scale) * values[k];
    const both = weights[k] + weights[last - k];
    if (both > 1e-250) points.push({ t, accuracy: weights[scale < 0 ? last - k : k] / both });
    if (t > limit) break;
  }
  return points;
}

/** Law of the aggregated coordinate given class +1, on a symmetric grid with steps up to a size. */
export function aggregatedLaw(h, snr, degree, selfLoop = false, largestStep = Infinity) {
  const signal = Math.sqrt(snr);
  const loops = selfLoop ? 1 : 0;
  const { tilt, rate } = findTilt(h, signal);
  const own = selfLoop ? Math.max(0, tilt * signal - 0.5 * tilt * tilt) : Infinity;
  const { counts, mass } = degreeWindow(degree, rate, own);
  let isolated = 0;
  if (counts[0] + loops === 0) {
    isolated = mass.shift();
    counts.shift();
  }
  if (!counts.length) throw new RangeError("The degree is so small that every node is isolated.");
  const rows = counts.map((count, k) => {
    const table = binomial(count, h, 0.5 * (1 + tilt / signal), signal);
    const joined = count + loops;
    const centres = table.same.map((same) => (signal * (loops + 2 * same - count)) / joined);
    const precision = Math.sqrt(joined);
    const edge = centres.reduce((most, c) => Math.max(most, Math.abs(c)), 0);
    return { ...table, centres, precision, share: mass[k], reach: edge + DEVIATIONS / precision };
  });
  const total = mass.reduce((a, b) => a + b, 0);
  const typical = counts.reduce((sum, count, k) => sum + count * mass[k], 0) / total;
  const finest = Math.min(
    rows[rows.length - 1].precision,
    Math.sqrt(typical + 3 * Math.sqrt(typical) + loops),
  );
  const step = Math.min(
    largestStep,
    STEP / finest,
    1 / (2 * (typical + loops) * Math.max(Math.abs(tilt), 1e-6)),
  );
  const reach = rows.reduce((most, row) => Math.max(most, row.reach), 0);
  if (reach / step > LARGEST_GRID) throw new RangeError("The snr is too large for a table.");
  const table = tabulate(rows, step, Math.ceil(reach / step), isolated);
  return { ...table, isolated, rows, reach, finest };
}

function tabulate(rows, step, half, isolated) {
  const values = Float64Array.from({ length: 2 * half }, (_, k) => (k - half + 0.5) * step);
  const weights = new Float64Array(2 * half);
  let accuracy = 0.5 * isolated;
  for (const { centres, chance, precision, share, reach } of rows) {
    const edge = Math.trunc(reach / step);
    const low = Math.max(0, half - edge - 1);
    const high = Math.min(2 * half, half + edge + 1);
    for (let c = 0; c < centres.length; c += 1) {
      addGaussian(weights, low, high, values, centres[c], precision, chance[c] * share * precision);
      accuracy += share * chance[c] * ndtr(centres[c] * precision);
    }
  }
  const total = weights.reduce((a, b) => a + b, 0);
  for (let k = 0; k < weights.length; k += 1) weights[k] *= (1 - isolated) / total;
  return { values, weights, accuracy };
}

/** Add factor * exp(-((value - centre) precision)^2 / 2): two products a cell instead of an exp. */
function addGaussian(weights, low, high, values, centre, precision, factor) {
  const pace = (values[1] - values[0]) * precision;
  const bend = Math.exp(-pace * pace);
  for (let start = low; start < high; start += RESTART) {
    const u = (values[start] - centre) * precision;
    const end = Math.min(high, start + RESTART);
    let term = factor * Math.exp(-0.5 * u * u);
    let ratio = Math.exp(-u * pace - 0.5 * pace * pace);
    for (let k = start; k < end; k += 1) {
      weights[k] += term;
      term *= ratio;
      ratio *= bend;
    }
  }
}

/** Tilt that centres one neighbour's contribution at zero, and its (Chernoff) rate. */
function findTilt(h, signal) {
  let tilt = h === 1 ? signal : -signal;
  if (h > 0 && h < 1) {
    const lean = Math.atanh(2 * h - 1);
    let [low, high] = [-signal, signal];
    for (let round = 0; round < 60; round += 1) {
      tilt = 0.5 * (low + high);
      if (tilt < signal * Math.tanh(lean - tilt * signal)) low = tilt;
      else high = tilt;
    }
  }
  // log(h exp(-a) + (1 - h) exp(a)) with a = tilt * signal, without overflow.
  const same = h > 0 ? Math.log(h) - tilt * signal : -Infinity;
  const other = h < 1 ? Math.log1p(-h) + tilt * signal : -Infinity;
  const most = Math.max(same, other);
  const logMean = most + Math.log(Math.exp(same - most) + Math.exp(other - most));
  return { tilt, rate: Math.max(0, -logMean - 0.5 * tilt * tilt) };
}

/** Poisson degrees that matter: the bulk, and what is left of it near the decision boundary. */
function degreeWindow(mean, rate, own) {
  const size = Math.ceil(mean + 10 * Math.sqrt(mean) + 20);
  const logs = Array.from({ length: size }, (_, k) => xlogy(k, mean) - mean - logFactorial(k));
  const tilted = logs.map((value, k) => value - rate * k - (Number.isFinite(own) ? own : 0));
  if (!Number.isFinite(own)) tilted[0] = -Infinity;
  const [most, mostTilted] = [Math.max(...logs), Math.max(...tilted)];
  if (mostTilted < -LARGEST_RATE) throw new RangeError("Practically no prediction is wrong here.");
  const cut = Math.log(NEGLIGIBLE);
  const wanted = logs
    .map((value, k) => (value > most + cut || tilted[k] > mostTilted + cut ? k : -1))
    .filter((k) => k >= 0);
  const stride = Math.max(1, Math.trunc(Math.sqrt(mean * Math.exp(-rate)) / POINTS_PER_SD));
  const counts = [];
  for (let k = wanted[0]; k <= wanted[wanted.length - 1]; k += stride) counts.push(k);
  const shares = counts.map((k) => Math.exp(logs[k]));
  const total = shares.reduce((a, b) => a + b, 0);
  return { counts, mass: shares.map((value) => value / total) };
}

/** Same-class neighbour counts and probabilities, thinned when the law is wide and smooth. */
function binomial(degree, h, tilted, signal) {
  const spreads = [h, tilted].map((p) => Math.sqrt(degree * p * (1 - p)));
  const lows = [h, tilted].map((p, k) => degree * p - DEVIATIONS * spreads[k] - 2);
  const highs = [h, tilted].map((p, k) => degree * p + DEVIATIONS * spreads[k] + 2);
  const low = Math.max(0, Math.trunc(Math.min(...lows)));
  const high = Math.min(degree, Math.trunc(Math.max(...highs)));
  const widest = Math.min(...spreads, (2 * Math.sqrt(degree)) / signal);
  const stride = Math.max(1, Math.trunc(widest / POINTS_PER_SD));
  const same = [];
  for (let k = low; k <= high; k += stride) same.push(k);
  const chance = same.map((k) => {
    const ways = logFactorial(degree) - logFactorial(k) - logFactorial(degree - k);
    const rest = degree - k;
    return Math.exp(ways + xlogy(k, h) + (rest === 0 ? 0 : rest * Math.log1p(-h)));
  });
  const total = chance.reduce((a, b) => a + b, 0);
  return { same, chance: chance.map((value) => value / total) };
}

/** Root of sum w x (sigmoid(s x) - 1) = 0, increasing in s: Newton inside a bracket. */
export function lawScale({ values, weights }) {
  let [mass, square] = [0, 0];
  for (let k = 0; k < values.length; k += 1) {
    mass += weights[k];
    square += weights[k] * values[k] * values[k];
  }
  const unit = 0.5 / Math.sqrt(square / mass);
  let [low, high, point, reach] = [-Infinity, Infinity, unit, unit];
  for (let round = 0; round < 200; round += 1) {
    let [value, derivative] = [0, 0];
    for (let k = 0; k < values.length; k += 1) {
      const wrong = expit(-point * values[k]);
      const first = weights[k] * values[k];
      value -= first * wrong;
      derivative += first * values[k] * wrong * (1 - wrong);
    }
    if (value === 0) return point;
    if (value > 0) high = point;
    else low = point;
    const step = derivative > 0 ? -value / derivative : Infinity;
    let next = point + step;
    if (Number.isFinite(low) && Number.isFinite(high)) {
      if (!(low < next && next < high)) next = 0.5 * (low + high);
    } else if (Math.abs(step) > reach) {
      next = point - Math.sign(value) * reach;
      reach *= 2;
    }
    if (Math.abs(next - point) <= 1e-12 * Math.max(Math.abs(point), 1e-8 * unit)) return next;
    if (Math.abs(next) > 1e12 * unit) break;
    point = next;
  }
  throw new RangeError("No finite scale minimises the NLL.");
}
