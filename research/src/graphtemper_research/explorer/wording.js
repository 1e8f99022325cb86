// How numbers and the verdict read.

// Slopes closer to one than this are one up to rounding.
const CALIBRATED = 1e-9;

/** Write readings into their places; the full number stays in data-value. */
export function show(found, camel) {
  for (const where of document.querySelectorAll("[data-reading]")) {
    const name = camel(where.dataset.reading);
    if (!(name in found)) continue;
    const value = found[name];
    where.dataset.value = value === null ? "" : String(value);
    where.textContent = readable(value);
  }
}

/** Four digits where they help; a dash where a quantity does not exist. */
export function readable(value) {
  if (value === null) return "–";
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size >= 1e4 || size < 1e-4) return value.toExponential(2);
  return size >= 100 ? value.toFixed(1) : size >= 10 ? value.toFixed(2) : value.toFixed(4);
}

/** One word and one sentence about a state at its degree, or at large ones where that is not defined. */
export function sayVerdict({ hSource, hTarget, numClasses, degree }, found) {
  const exact = found.finiteSlope !== null;
  const slope = exact ? found.finiteSlope : found.slope;
  const temperature = exact ? found.finiteTemperature : found.temperature;
  if (found.slope === null) {
    return {
      tone: "none",
      word: "No calibration at the source.",
      sentence: "At source homophily 0.5 neighbours carry no signal, so there is no scale to fix.",
    };
  }
  const percent = (value) => `${(100 * value).toFixed(1)} %`;
  const says = exact
    ? `At degree ${readable(degree).replace(/\.?0+$/, "")} the model is right ${percent(found.finiteAccuracy)} of the time ` +
      `and its confidence is off by ${(100 * found.finiteEce).toFixed(1)} points`
    : `The model says ${percent(found.meanConfidence)} on average and is right ${percent(found.accuracy)} of the time`;
  const notes = [];
  if (found.illConditioned) {
    notes.push("The source is so close to 0.5 that a small error in its homophily moves κ by a large factor.");
  }
  if (numClasses > 2 && found.signalRatio !== null) {
    notes.push(`With ${numClasses} classes the class means change by the factor ${readable(found.signalRatio)}.`);
  }
  const tail = notes.length ? ` ${notes.join(" ")}` : "";
  if (Math.abs(slope) < 1e-12) {
    return { tone: "over", word: "No information left.", sentence: `${says}; no temperature repairs that.${tail}` };
  }
  if (slope < 0) {
    const side = hTarget < hSource ? "below" : "above";
    return {
      tone: "over",
      word: "Predictions point the wrong way.",
      sentence: `${says}: the target lies ${side} the zero crossing, where no positive temperature exists.${tail}`,
    };
  }
  if (Math.abs(slope - 1) < CALIBRATED) {
    return { tone: "right", word: "Calibrated.", sentence: `${says}.${tail}` };
  }
  const over = slope < 1;
  return {
    tone: over ? "over" : "under",
    word: over ? "Over-confident." : "Under-confident.",
    sentence: `${says}; dividing the logits by ${readable(temperature)} makes confidence and accuracy equal.${tail}`,
  };
}
