// The closed forms of graphtemper.theory and graphtemper.population, one function each, under the
// same names. Where Python raises InputError, these throw RangeError.
import { expit, gaussLegendre, ndtr } from "./special.js";

// Closer than this to the zero crossing, only rounding separates the signal from zero.
const ZERO_SIGNAL = 1e-12;
export const ILL_CONDITIONED_SIGNAL = 0.05;

/** Mean and variance of the mean-aggregated coordinate of a node of class +1. */
export function aggregatedMoments(h, snr, degree, sigma = 1) {
  return {
    mean: (2 * h - 1) * sigma * Math.sqrt(snr),
    variance: (sigma * sigma * noise(h, snr)) / degree,
  };
}

/** Calibration slope under homophily shift with mean aggregation. */
export function slope(hTarget, hSource, snr, degreeRatio = 1) {
  requireSignal(2 * hSource - 1);
  const numerator = (2 * hTarget - 1) * noise(hSource, snr);
  return (degreeRatio * numerator) / ((2 * hSource - 1) * noise(hTarget, snr));
}

/** Limit of the slope as snr -> 0. */
export function slopeLimitLowSnr(hTarget, hSource) {
  requireSignal(2 * hSource - 1);
  return (2 * hTarget - 1) / (2 * hSource - 1);
}

/** Limit of the slope as snr -> infinity. */
export function slopeLimitHighSnr(hTarget, hSource) {
  if (hTarget <= 0 || hTarget >= 1) throw new RangeError("h_target must lie inside (0, 1).");
  requireSignal(2 * hSource - 1);
  const spread = (hSource * (1 - hSource)) / (hTarget * (1 - hTarget));
  return ((2 * hTarget - 1) / (2 * hSource - 1)) * spread;
}

/** Calibration slope of the symmetric-normalised operator with self-loops. */
export function slopeSelfLoop(hTarget, hSource, snr, degree) {
  const signal = (h) => 1 / degree + (2 * h - 1);
  const spread = (h) => 4 * h * (1 - h) * snr + 1 + 1 / degree;
  requireSignal(signal(hSource));
  return (signal(hTarget) / signal(hSource)) * (spread(hSource) / spread(hTarget));
}

/** Homophily at which the self-loop operator loses its signal. */
export function selfLoopZeroCrossing(degree) {
  return 0.5 * (1 - 1 / degree);
}

/** Factor by which aggregation scales each class mean, with K classes. */
export function signalCoefficient(h, numClasses) {
  return (h * numClasses - 1) / (numClasses - 1);
}

/** Factor by which a homophily shift rescales the mean logit vector. */
export function signalRatio(hTarget, hSource, numClasses) {
  const source = signalCoefficient(hSource, numClasses);
  requireSignal(source);
  return signalCoefficient(hTarget, numClasses) / source;
}

/** Calibration slope when only the feature noise grows. */
export function slopeCovariate(h, snr, gamma) {
  return noise(h, snr) / (noise(h, snr) + gamma);
}

/** Optimal temperature when only the feature noise grows. */
export function temperatureCovariate(h, snr, gamma) {
  return 1 + gamma / noise(h, snr);
}

/** NLL-optimal temperature of a slope. */
export function optimalTemperature(value) {
  if (!(value > 0)) throw new RangeError("A temperature exists only for a slope above 0.");
  return 1 / value;
}

/** Over- or under-confident. */
export function direction(value, tolerance = 1e-9) {
  if (Math.abs(value - 1) <= tolerance) return "calibrated";
  return value < 1 ? "over-confident" : "under-confident";
}

/** Upper bound of the population ECE. */
export function eceBound(value, meanAbs) {
  return 0.25 * Math.abs(value - 1) * meanAbs;
}

/** Confidence and accuracy at logit magnitude t. */
export function confidenceAccuracyCurve(t, value) {
  return { confidence: expit(t), accuracy: expit(value * t) };
}

/** Calibration slope of decision values N(+-mean, variance). */
export function slopeFromMoments(mean, variance) {
  return (2 * mean) / variance;
}

/** Accuracy of decision values N(+-mean, variance). */
export function populationAccuracy(mean, variance) {
  return ndtr(mean / Math.sqrt(variance));
}

/** Mean of |delta| for delta ~ N(+-mean, variance). */
export function meanAbsLogit(mean, variance) {
  const spread = Math.sqrt(variance);
  const centre = mean * (2 * ndtr(mean / spread) - 1);
  return spread * Math.sqrt(2 / Math.PI) * Math.exp(-(mean * mean) / (2 * variance)) + centre;
}

/** Mean confidence minus accuracy of the Gaussian model after a temperature. */
export function populationGap(mean, variance, temperature = 1) {
  const [centre, spread] = [Math.abs(mean), Math.sqrt(variance)];
  const value = slopeFromMoments(mean, variance);
  const low = Math.max(centre - 10 * spread, 0);
  const width = centre + 10 * spread - low;
  let sum = 0;
  for (let k = 0; k < rule.nodes.length; k += 1) {
    // Squared nodes crowd where the sigmoid bends.
    const half = 0.5 * (rule.nodes[k] + 1);
    const t = low + width * half * half;
    const density =
      Math.exp(-0.5 * ((t - centre) / spread) ** 2) + Math.exp(-0.5 * ((t + centre) / spread) ** 2);
    sum += rule.weights[k] * half * density * (expit(t / temperature) - expit(value * t));
  }
  return (sum * width) / (spread * Math.sqrt(2 * Math.PI));
}

/** Exact population ECE of the Gaussian model after a temperature. */
export function populationEce(mean, variance, temperature = 1) {
  return Math.abs(populationGap(mean, variance, temperature));
}

export const rule = gaussLegendre(160);

/** Variance of one neighbour's contribution in units of sigma^2: labels and features. */
function noise(h, snr) {
  return 1 + 4 * h * (1 - h) * snr;
}

function requireSignal(coefficient) {
  if (Math.abs(coefficient) <= ZERO_SIGNAL) {
    throw new RangeError("The source has no signal here, so no source calibration exists.");
  }
}
