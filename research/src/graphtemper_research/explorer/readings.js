// Everything that the page says about one state: graphtemper.explorer.readings in JavaScript.
import * as finite from "./finite_degree.js";
import * as theory from "./theory.js";

/** Closed forms and the Gaussian model; null where a quantity does not exist. */
export function limitReadings({ hSource, hTarget, snr, degree, numClasses, gamma }) {
  const slope = maybe(
    () => theory.slope(hTarget, hSource, snr) * theory.slopeCovariate(hTarget, snr, gamma),
  );
  const joined = (snr * degree) / (degree + 1);
  const slopeSelfLoop = maybe(
    () =>
      theory.slopeSelfLoop(hTarget, hSource, snr, degree) *
      theory.slopeCovariate(hTarget, joined, gamma),
  );
  const source = theory.aggregatedMoments(hSource, snr, degree);
  const target = theory.aggregatedMoments(hTarget, snr / (1 + gamma), degree, Math.sqrt(1 + gamma));
  const scale = theory.slopeFromMoments(source.mean, source.variance);
  const [mean, variance] = [scale * target.mean, scale * scale * target.variance];
  const known = (value) => (slope === null ? null : value());
  const accuracy = known(() => theory.populationAccuracy(mean, variance));
  const gap = known(() => theory.populationGap(mean, variance));
  const meanAbsLogit = known(() => theory.meanAbsLogit(mean, variance));
  return {
    slope,
    temperature: maybe(() => theory.optimalTemperature(slope)),
    direction: known(() => theory.direction(slope)),
    slopeSelfLoop,
    temperatureSelfLoop: maybe(() => theory.optimalTemperature(slopeSelfLoop)),
    selfLoopZeroCrossing: theory.selfLoopZeroCrossing(degree),
    slopeLimitLowSnr: maybe(() => theory.slopeLimitLowSnr(hTarget, hSource)),
    slopeLimitHighSnr: maybe(() => theory.slopeLimitHighSnr(hTarget, hSource)),
    accuracy,
    meanConfidence: known(() => accuracy + gap),
    ece: known(() => Math.abs(gap)),
    meanAbsLogit,
    eceBound: known(() => theory.eceBound(slope, meanAbsLogit)),
    signalSource: theory.signalCoefficient(hSource, numClasses),
    signalTarget: theory.signalCoefficient(hTarget, numClasses),
    signalRatio: maybe(() => theory.signalRatio(hTarget, hSource, numClasses)),
    illConditioned: Math.abs(2 * hSource - 1) < theory.ILL_CONDITIONED_SIGNAL,
  };
}

/** Source scales at finite degree: what every target of a curve shares; null without signal. */
export function finiteSource({ hSource, snr, degree }) {
  return {
    mean: maybe(() => {
      theory.slope(hSource, hSource, snr);
      return finite.optimalScale(hSource, snr, degree);
    }),
    selfLoop: maybe(() => finite.optimalScale(hSource, snr, degree, true)) || null,
  };
}

/** Points of the accuracy at finite degree against logit magnitude. */
export function finiteCurve({ hTarget, snr, degree, gamma }, source, limit) {
  if (source.mean === null) return [];
  const scale = source.mean * Math.sqrt(1 + gamma);
  const step = limit / 60 / Math.abs(scale);
  const points = maybe(() =>
    finite.lawCurve(finite.aggregatedLaw(hTarget, snr / (1 + gamma), degree, false, step), scale, limit),
  );
  return points ?? [];
}

/** The same as `limitReadings` without the large-degree limit. */
export function finiteReadings(state, source = finiteSource(state)) {
  const spread = Math.sqrt(1 + state.gamma);
  const law = (selfLoop) =>
    maybe(() => finite.aggregatedLaw(state.hTarget, state.snr / (1 + state.gamma), state.degree, selfLoop));
  const [mean, selfLoop] = [source.mean && law(false), source.selfLoop && law(true)];
  // Symmetric neighbours cancel exactly, which rounding would not show.
  const lost = state.hTarget === 0.5;
  const slope =
    mean && (lost ? 0 : maybe(() => finite.lawScale(mean) / spread / source.mean));
  const slopeLoop = selfLoop && maybe(() => finite.lawScale(selfLoop) / spread / source.selfLoop);
  return {
    finiteSlope: slope,
    finiteTemperature: maybe(() => theory.optimalTemperature(slope)),
    finiteSlopeSelfLoop: slopeLoop,
    finiteTemperatureSelfLoop: maybe(() => theory.optimalTemperature(slopeLoop)),
    finiteAccuracy: mean && (source.mean > 0 ? mean.accuracy : 1 - mean.accuracy),
    finiteEce: mean && finite.lawEce(mean, source.mean * spread),
  };
}

function maybe(compute) {
  try {
    const value = compute();
    return typeof value === "number" && !Number.isFinite(value) ? null : value;
  } catch (error) {
    if (error instanceof RangeError) return null;
    throw error;
  }
}
