// How numbers and the verdict read.

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

/** One word and one sentence about a state. */
export function sayVerdict({ hSource, hTarget, numClasses }, found) {
  const { slope, temperature, accuracy, meanConfidence } = found;
  if (slope === null) {
    return {
      tone: "none",
      word: "No calibration at the source.",
      sentence: "At source homophily 0.5 neighbours carry no signal, so there is no scale to fix.",
    };
  }
  const percent = (value) => `${(100 * value).toFixed(1)} %`;
  const says = `The model says ${percent(meanConfidence)} on average and is right ${percent(accuracy)} of the time`;
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
  if (found.direction === "calibrated") {
    return { tone: "right", word: "Calibrated.", sentence: `${says}.${tail}` };
  }
  const over = found.direction === "over-confident";
  return {
    tone: over ? "over" : "under",
    word: over ? "Over-confident." : "Under-confident.",
    sentence: `${says}; dividing the logits by ${readable(temperature)} makes the two equal.${tail}`,
  };
}
