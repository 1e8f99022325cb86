"""Sentences about a result, written for people who make decisions."""

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
    LEVEL,
    VERIFIED_WIDTH,
    labels_needed,
)
from graphtemper.signals.changes import telling

# Differences below this are described as no change.
_SAME = 0.02
# A change of mean confidence that rounding hides.
_UNCHANGED = 0.005
# Wider intervals are given in whole percentages.
_NARROW = 0.04
_MORE_LABELS, _MOST_CHANGES = 50, 3


def summary_rows(result: Applied) -> dict[str, str]:
    """Return the numbers of a summary by name."""
    accuracy, (before, after) = result.accuracy, result.mean_confidence
    value = "not known" if result.verdict == "abstain" else f"{accuracy.value:.1%}"
    rows = {
        "Accuracy": f"{value} ({100 * LEVEL:.0f} % interval {accuracy.low:.1%} to "
        f"{accuracy.high:.1%}); {result.reading.card.reference.accuracy:.1%} at the source",
        "Confidence": f"{before:.1%} at the source temperature, {after:.1%} now",
        "Temperature": temperature_in_words(result),
    }
    changed = changes_in_words(result)
    return rows | {"Changes": changed} if changed else rows


def changes_in_words(result: Applied) -> str:
    """Return the largest changes as sentences; empty if there are none."""
    texts = list(map(str, telling(result.changes, _MOST_CHANGES)))
    if result.reading.card.columns is None:
        texts.append("whether columns changed is unknown: the card is of an earlier version.")
    if len(result.changes) > _MOST_CHANGES:
        texts.append(f"{len(result.changes) - _MOST_CHANGES} more: result.changes.")
    return " ".join(text[:1].upper() + text[1:] for text in texts)


def next_command(result: Applied, command: str | None = None) -> list[str]:
    """Return the lines to type that would earn trust; none where the verdict is that.

    They are Python, or the ``command`` of a shell.
    """
    # The nodes that were labelled before are the first of a larger sample.
    count = min(result.num_labels + _MORE_LABELS, len(result.nodes))
    if result.verdict == "trust" or count == result.num_labels:
        return []
    label = f"recalibrate(..., labels={{n: ... for n in suggest_labels(result, {count})}})"
    python = f"{label}, or card.learn(model, earlier_graph) if that has labels."
    return [f"Next: {command or python}"]


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


def temperature_in_words(result: Applied) -> str:
    """Return the temperature, and what it does to the confidence."""
    value, source = result.temperature, result.source_temperature
    text = temperature_text(value)
    if result.node_temperatures is not None and result.verdict != "abstain":
        low, high = map(temperature_text, np.quantile(result.node_temperatures, (0.05, 0.95)))
        return f"{text} for the graph; per node, 90 % between {low} and {high}"
    if value == source:
        return f"{text}, the source temperature: nothing is changed"
    if abs(value / source - 1.0) < _SAME:
        return f"{text}, as at the source: confidence does not change"
    word = "lowered" if value > source else "raised"
    return f"{text} (source {temperature_text(source)}): confidence is {word}"


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
