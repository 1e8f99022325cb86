"""Sentences of a report, written for people who make decisions."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphtemper.recalibration.few_labels import effective_count
from graphtemper.recalibration.findings import Background, Findings
from graphtemper.recalibration.labelling import suggest_labels
from graphtemper.recalibration.verdict import (
    ABSTAIN_NOVELTY,
    CAUTION_NOVELTY,
    CAUTION_WIDTH,
    LEVEL,
    labels_needed,
)

# Relative differences below this are described as no change.
_SAME = 0.02


def verdict_sentence(result: Findings, background: Background) -> str:
    """Return the whole answer in one sentence."""
    accuracy, (before, after) = result.accuracy, result.mean_confidence
    model, count = background.card.predictor, len(result.probabilities)
    interval = f"{LEVEL:.0%} interval {accuracy.low:.1%} to {accuracy.high:.1%}"
    if result.verdict == "abstain":
        return (
            f"Do not rely on {model} here yet: without more labels, its accuracy on these "
            f"{count:,} nodes is too uncertain ({interval}). Its confidence, {after:.1%}, "
            "is a best guess."
        )
    right = f"{model} is estimated to be right on {accuracy.value:.1%} of {count:,} nodes"
    change = (
        f"its confidence stays at {after:.1%}"
        if abs(after - before) < 0.005
        else f"its confidence is {'lowered' if after < before else 'raised'} from {before:.1%} to "
        f"{after:.1%}"
    )
    lead = "Trust" if result.verdict == "trust" else "Use with caution"
    return f"{lead}: {right} ({interval}), and {change}."


def temperature_meaning(result: Findings, source: float) -> str:
    """Return a sentence on what dividing logits by the temperature does to the confidence."""
    value = result.temperature
    before, after = result.mean_confidence
    if value == source:
        return "The logits are divided by the source temperature, as before: nothing is changed."
    predictions = (
        "No prediction changes."
        if result.logit_shift is None
        else "The correction for class shares changes some predictions; the temperature changes "
        "none."
    )
    if result.node_temperatures is not None:
        low, high = np.quantile(result.node_temperatures, (0.05, 0.95))
        return (
            f"Every node has its own temperature, 90 % of them between {low:.3g} and {high:.3g}; "
            f"the source temperature is {source:.3g}. A higher temperature lowers confidence. Mean "
            f"confidence changes from {before:.1%} to {after:.1%}. {predictions}"
        )
    if abs(value / source - 1.0) < _SAME:
        return f"The temperature equals the source's, so confidence does not change. {predictions}"
    word, verb = ("above", "lowers") if value > source else ("below", "raises")
    return (
        f"The logits are divided by {value:.3g} instead of {source:.3g}. A temperature {word} the "
        f"source's {verb} confidence: on average from {before:.1%} to {after:.1%}. {predictions}"
    )


def severity(bound: float) -> str:
    """Return a sentence on how large the calibration error can be without recalibration.

    Examples
    --------
    >>> severity(1.3)
    'There is no useful bound on the calibration error, because the logits are large.'
    """
    if bound >= 1.0:
        return "There is no useful bound on the calibration error, because the logits are large."
    return (
        f"At the source temperature the calibration error (ECE) is at most {bound:.3f}, if one "
        "slope describes all nodes."
    )


def causes(result: Findings, background: Background) -> list[dict[str, Any]]:
    """Return the quantities that differ between source and target, with both values."""
    source, signals, gains = background.card.reference.evidence, result.signals, result.gains
    signal = gains.get("signal")
    rows = [
        ("homophily", "Homophily", source.homophily, signals.get("homophily"), _HOMOPHILY),
        ("snr", "Signal-to-noise ratio of the features", source.snr, signals.get("snr"), _SNR),
        (
            "degree",
            "Typical number of neighbours",
            float(np.expm1(source.log_degree)),
            float(np.expm1(signals["log_degree"])),
            _DEGREE,
        ),
        ("signal", "Signal left in the logits", 1.0 if signal is not None else None, signal, _GAIN),
        ("logit_size", "Mean size of the logits", source.mean_abs_logit, *_size(signals)),
    ]
    return [
        {
            "key": key,
            "name": name,
            "source": old,
            "target": new,
            "meaning": _compare(old, new, text),
        }
        for key, name, old, new, text in rows
    ]


# What a value (lower, higher) than at the source means.
_HOMOPHILY = (
    "Fewer edges join nodes of the same predicted class: neighbours carry less information.",
    "More edges join nodes of the same predicted class: neighbours carry more information.",
)
_SNR = (
    "The features separate the predicted classes less well than at the source.",
    "The features separate the predicted classes better than at the source.",
)
_DEGREE = (
    "Nodes have fewer neighbours to average over, so more noise remains.",
    "Nodes have more neighbours to average over, so more noise cancels.",
)
_GAIN = (
    "Part of the signal that separates the classes is lost.",
    "The classes are further apart than at the source.",
)
_SIZE = (
    "The model is less confident per node than at the source.",
    "The model is more confident per node than at the source.",
)


def _size(signals: dict[str, float]) -> tuple[float, tuple[str, str]]:
    return signals["mean_abs_logit"], _SIZE


def _compare(source: float | None, target: float | None, meanings: tuple[str, str]) -> str:
    if source is None or target is None:
        return "Could not be measured on both graphs."
    if abs(target - source) <= _SAME * abs(source):
        return "About the same as at the source."
    return meanings[0] if target < source else meanings[1]


def next_steps(result: Findings, background: Background) -> list[dict[str, Any]]:
    """Return the recommended actions (accept, label, retrain), the most important first."""
    accuracy, source = result.accuracy, background.card.reference.accuracy
    steps = []
    count = labels_to_take(result, background)
    if count:
        more = " more" if result.num_labels else ""
        text = (
            f"They would determine the accuracy to within {CAUTION_WIDTH:.0%}. The first command "
            "chooses them, spread over confidence; the second uses them for the answer."
        )
        commands = ["graphtemper suggest-labels", "graphtemper recalibrate --labels"]
        steps.append(_step("label", f"Label about {count}{more} nodes", text, *commands))
    strange = background.novelty > CAUTION_NOVELTY
    if result.verdict == "abstain" and strange:
        steps.append(_step("retrain", "Retrain, if such graphs will be common", _STRANGE))
    elif result.verdict != "abstain" and accuracy.high < source:
        text = (
            f"At the source the accuracy was {source:.1%}, here it is at most {accuracy.high:.1%}. "
            "A temperature corrects the confidence, not the accuracy."
        )
        steps.append(_step("retrain", "Retrain, or accept the lower accuracy", text))
    if result.verdict == "trust":
        return [_step("accept", "Accept", _ACCEPT), *steps]
    if result.verdict == "caution":
        text = (
            "The recalibrated probabilities are the best available; plan for the lower end of the "
            f"interval, an accuracy of {accuracy.low:.1%}."
        )
        return [*steps, _step("accept", "Accept with a margin", text)]
    return [*steps, _step("hold", "Do not automate on these probabilities", _HOLD)]


_ACCEPT = "Use the recalibrated probabilities. Repeat this when the graph has changed."
_STRANGE = (
    "This graph is unlike every shift in the card. Train on labelled nodes of it, or of similar "
    "graphs, and build a new card."
)
_HOLD = "Until labels are available, have a person make decisions that depend on confidence."


def _step(action: str, title: str, text: str, *commands: str) -> dict[str, Any]:
    return {"action": action, "title": title, "text": text, "commands": list(commands)}


def labels_to_take(result: Findings, background: Background) -> int:
    """Return the number of further labels that determine the accuracy, 0 for ``trust``."""
    if result.verdict == "trust":
        return 0
    accuracy = result.accuracy
    strange = background.novelty > ABSTAIN_NOVELTY
    # Far from the atlas the interval does not apply, so every accuracy is possible.
    hardest = (
        0.5 if strange and not result.num_labels else min(max(0.5, accuracy.low), accuracy.high)
    )
    weights = background.labels.weights
    effective = effective_count(weights) if weights.size else 0.0
    unlabelled = len(result.probabilities) - int(weights.size)
    return max(min(labels_needed(hardest) - int(effective), unlabelled), 0)


def suggestion(result: Findings, background: Background) -> dict[str, Any] | None:
    """Return nodes to label with their weights; None if there are labels or none are needed."""
    count = labels_to_take(result, background)
    if not count or result.num_labels:
        return None
    plan = suggest_labels(result, count)
    return {"nodes": plan.nodes.tolist(), "weights": plan.weights.tolist()}
