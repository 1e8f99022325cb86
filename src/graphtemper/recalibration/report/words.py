"""Sentences of a report, written for people who make decisions."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphtemper._core.printable import temperature_text
from graphtemper.recalibration.applied import Applied
from graphtemper.recalibration.labels.few_labels import more_labels
from graphtemper.recalibration.labels.given import suggest_labels
from graphtemper.recalibration.verdict import (
    ABSTAIN_NOVELTY,
    CAUTION_NOVELTY,
    CAUTION_WIDTH,
    VERIFIED_WIDTH,
    labels_needed,
)

# Differences below this are described as no change.
_SAME = 0.02
# A change of mean confidence that rounding hides.
_UNCHANGED = 0.005
# Wider intervals are given in whole percentages.
_NARROW = 0.04


def headline(result: Applied) -> str:
    """Return the news in one sentence: how accurate the model is here, against the source."""
    accuracy, source = result.accuracy, result.reading.card.reference.accuracy
    span = between(accuracy.low, accuracy.high)
    if result.verdict == "abstain":
        return f"The accuracy here is not known: it may be anywhere in {span}."
    here = f"{percent(accuracy.value, accuracy.high - accuracy.low)} ({span})"
    if accuracy.high < source:
        return f"Accuracy is estimated to have fallen from {source:.1%} to {here}."
    if accuracy.low > source:
        return f"Accuracy is estimated to have risen from {source:.1%} to {here}."
    if abs(accuracy.value - source) <= _SAME:
        return f"Accuracy is estimated at {here}, about as at the source ({source:.1%})."
    return f"Accuracy is estimated at {here}; the {source:.1%} of the source is not excluded."


def confidence_sentence(result: Applied) -> str:
    """Return a sentence on what was wrong with the confidence, and what was done about it."""
    before, after = result.mean_confidence
    changed = abs(after - before) >= _UNCHANGED
    now = f"its confidence is now {after:.1%}" if changed else "its confidence is kept"
    if result.verdict == "abstain":
        return (
            f"The model claimed {before:.1%} on average; {now}. Do not rely on it before there are "
            "labels."
        )
    gap = 100.0 * abs(before - result.accuracy.value)
    if result.direction == "unknown":
        wide = result.accuracy.half_width > CAUTION_WIDTH
        judged = "which may be right: the interval " + (
            "is too wide to tell" if wide else "holds it as well"
        )
    elif result.direction == "calibrated":
        judged = "which agrees with the estimate"
    else:
        judged = f"{gap:.0f} points too {'much' if before > result.accuracy.value else 'little'}"
    return f"The model claimed {before:.1%} on average, {judged}; {now}. {_predictions(result)}"


def percent(share: float, width: float) -> str:
    """Return a share as a percentage, with a decimal place only if its interval is narrow.

    Examples
    --------
    >>> percent(0.6543, 0.15), percent(0.9412, 0.012)
    ('65%', '94.1%')
    """
    return f"{share:.{0 if width > _NARROW else 1}%}"


def between(low: float, high: float) -> str:
    """Return an interval of shares.

    Examples
    --------
    >>> between(0.571, 0.72), between(0.931, 0.944)
    ('57–72%', '93.1–94.4%')
    """
    return f"{percent(low, high - low)[:-1]}–{percent(high, high - low)}"


def temperature_meaning(result: Applied) -> str:
    """Return a sentence on what dividing logits by the temperature does to the confidence."""
    value, source = result.temperature, result.source_temperature
    shown, usual = temperature_text(value), temperature_text(source)
    before, after = result.mean_confidence
    if value == source:
        return "The logits are divided by the source temperature, as before: nothing is changed."
    predictions = _predictions(result)
    if result.node_temperatures is not None:
        low, high = map(temperature_text, np.quantile(result.node_temperatures, (0.05, 0.95)))
        return (
            f"Every node has its own temperature, 90 % of them between {low} and {high}; "
            f"the source temperature is {usual}. A higher temperature lowers confidence. Mean "
            f"confidence changes from {before:.1%} to {after:.1%}. {predictions}"
        )
    if abs(value / source - 1.0) < _SAME:
        return f"The temperature equals the source's, so confidence does not change. {predictions}"
    word, verb = ("above", "lowers") if value > source else ("below", "raises")
    return (
        f"The logits are divided by {shown} instead of {usual}. A temperature {word} the "
        f"source's {verb} confidence: on average from {before:.1%} to {after:.1%}. {predictions}"
    )


def _predictions(result: Applied) -> str:
    if result.logit_shift is None:
        return "No prediction changes."
    return "The correction for class shares changes some predictions; the temperature changes none."


def severity(bound: float) -> str:
    """Return a sentence on how large the calibration error can be without recalibration.

    Examples
    --------
    >>> severity(0.21)
    'Without recalibration, confidence could be wrong by up to 21 points on average.'
    """
    return (
        f"Without recalibration, confidence could be wrong by up to {100 * bound:.0f} points on "
        "average."
    )


# What a value (lower, higher) than at the source means, by the quantity that is compared.
_MEANINGS = {
    "Homophily": (
        "Fewer edges join nodes of the same predicted class: neighbours carry less information.",
        "More edges join nodes of the same predicted class: neighbours carry more information.",
    ),
    "Signal-to-noise ratio of the features": (
        "The features separate the predicted classes less well than at the source.",
        "The features separate the predicted classes better than at the source.",
    ),
    "Typical number of neighbours": (
        "Nodes have fewer neighbours to average over, so more noise remains.",
        "Nodes have more neighbours to average over, so more noise cancels.",
    ),
    "Signal left in the logits": (
        "Part of the signal that separates the classes is lost.",
        "The classes are further apart than at the source.",
    ),
    "Mean size of the logits": (
        "The model is less confident per node than at the source.",
        "The model is more confident per node than at the source.",
    ),
}


def causes(result: Applied) -> list[dict[str, Any]]:
    """Return the quantities that differ between source and target, with both values."""
    source, signals = result.reading.card.reference.evidence, result.signals
    both = source.log_degree, signals.get("log_degree")
    degrees = (None if value is None else float(np.expm1(value)) for value in both)
    gain = result.gains.get("signal")
    values = {
        "homophily": (source.homophily, signals.get("homophily")),
        "snr": (source.snr, signals.get("snr")),
        "degree": tuple(degrees),
        "signal": (None if gain is None else 1.0, gain),
        "logit_size": (source.mean_abs_logit, signals["mean_abs_logit"]),
    }
    rows = zip(values.items(), _MEANINGS.items(), strict=True)
    return [
        {"key": key, "name": name, "source": old, "target": new}
        | {"meaning": _compare(old, new, meanings)}
        for (key, (old, new)), (name, meanings) in rows
    ]


def _compare(source: float | None, target: float | None, meanings: tuple[str, str]) -> str:
    if source is None or target is None:
        return "Could not be measured on both graphs."
    if abs(target - source) <= _SAME * abs(source):
        return "About the same as at the source."
    return meanings[0] if target < source else meanings[1]


def next_steps(result: Applied) -> list[dict[str, Any]]:
    """Return the recommended actions (accept, label, retrain), the most important first."""
    accuracy, source = result.accuracy, result.reading.card.reference.accuracy
    steps = []
    count = labels_to_take(result)
    if count:
        text = (
            f"They would determine the accuracy to within {100 * VERIFIED_WIDTH:.0f} points. The "
            "first command asks for them in batches, until they suffice; the second uses them."
        )
        commands = ["graphtemper label", "graphtemper recalibrate --labels"]
        about = f"about {count}" if count > 1 else "1"
        more = " more" if result.num_labels else ""
        title = f"Label {about}{more} node{'s' if count > 1 else ''}"
        steps.append(_step("label", title, text, *commands))
    strange = result.reading.novelty > CAUTION_NOVELTY
    if result.verdict == "abstain" and strange:
        steps.append(_step("retrain", "Retrain, if such graphs will be common", _STRANGE))
    elif result.verdict != "abstain" and accuracy.high < source:
        text = (
            f"It was {source:.1%} at the source and is at most {accuracy.high:.1%} here. "
            "Recalibration corrects the confidence, not the accuracy."
        )
        enough = percent(accuracy.value, accuracy.high - accuracy.low)
        steps.append(_step("retrain", f"Retrain if an accuracy of {enough} is not enough", text))
    if result.verdict == "trust":
        return [_step("accept", "Use the recalibrated probabilities", _ACCEPT), *steps]
    if result.verdict == "caution":
        text = (
            "They are the best available; plan for the lower end of the interval, an accuracy of "
            f"{accuracy.low:.1%}."
        )
        return [*steps, _step("accept", "Use the recalibrated probabilities with a margin", text)]
    return [_step("hold", "Do not automate on these probabilities", _HOLD), *steps]


_ACCEPT = "They are as confident as the model is right. Repeat this when the graph has changed."
_STRANGE = (
    "This graph is unlike every shift in the card. Train on labelled nodes of it, or of similar "
    "graphs, and build a new card."
)
_HOLD = "Until labels are available, have a person make decisions that depend on confidence."


def _step(action: str, title: str, text: str, *commands: str) -> dict[str, Any]:
    return {"action": action, "title": title, "text": text, "commands": list(commands)}


def labels_to_take(result: Applied) -> int:
    """Return the number of further labels that determine the accuracy, 0 for ``trust``.

    After a few labels the interval also holds what the atlas knows, so it is what more labels have
    to narrow. Without labels they are counted as if the atlas did not apply.
    """
    if result.verdict == "trust":
        return 0
    accuracy, size = result.accuracy, len(result.probabilities)
    if result.num_labels:
        needed = more_labels(accuracy, VERIFIED_WIDTH)
    else:
        # Far from the atlas the interval does not apply, so every accuracy is possible.
        strange = result.reading.novelty > ABSTAIN_NOVELTY
        hardest = 0.5 if strange else min(max(0.5, accuracy.low), accuracy.high)
        needed = labels_needed(hardest, population=size)
    return max(min(needed, size - result.num_labels), 0)


def suggestion(result: Applied) -> dict[str, Any] | None:
    """Return nodes to label; None if there are labels or none are needed."""
    count = labels_to_take(result)
    if not count or result.num_labels:
        return None
    return {"nodes": suggest_labels(result, count).tolist()}
