"""Sentences of a report: what the numbers mean to somebody who decides, not to who measured."""

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

# Ratios closer to one than this are no change to a reader.
_SAME = 0.02


def verdict_sentence(result: Findings, background: Background) -> str:
    """Return the whole answer in one sentence."""
    accuracy, (before, after) = result.accuracy, result.mean_confidence
    model, count = background.card.predictor, len(result.probabilities)
    interval = f"{LEVEL:.0%} interval {accuracy.low:.1%} to {accuracy.high:.1%}"
    if result.verdict == "abstain":
        return (
            f"Do not rely on {model} here yet: what can be seen without more labels does not "
            f"settle how often it is right on these {count:,} nodes ({interval}), so its "
            f"confidence is left at {after:.1%}."
        )
    right = f"{model} is estimated to be right on {accuracy.value:.1%} of {count:,} nodes"
    moved = (
        f"its confidence stays at {after:.1%}"
        if abs(after - before) < 0.005
        else f"its confidence is {'lowered' if after < before else 'raised'} from {before:.1%} to "
        f"{after:.1%}"
    )
    lead = "Trust" if result.verdict == "trust" else "Use with caution"
    return f"{lead}: {right} ({interval}), and {moved}."


def temperature_meaning(result: Findings, source: float) -> str:
    """Say what dividing logits by the temperature does to the confidence."""
    value = result.temperature
    before, after = result.mean_confidence
    if result.verdict == "abstain":
        return (
            "The logits are divided by the source's own temperature, as before: nothing is changed."
        )
    kept = (
        "No prediction changes."
        if result.logit_shift is None
        else "The correction for class shares changes some predictions; the temperature changes "
        "none."
    )
    if result.node_temperatures is not None:
        low, high = np.quantile(result.node_temperatures, (0.05, 0.95))
        return (
            f"Every node has a temperature of its own, nine in ten between {low:.3g} and "
            f"{high:.3g}; at the source it was {source:.3g}. Where it is higher, confidence is "
            f"lower. Mean confidence goes from {before:.1%} to {after:.1%}. {kept}"
        )
    if abs(value / source - 1.0) < _SAME:
        return f"The temperature is that of the source, so confidence stays as it is. {kept}"
    word, verb = ("above", "lowers") if value > source else ("below", "raises")
    return (
        f"The logits are divided by {value:.3g} in place of {source:.3g}. A temperature {word} the "
        f"source's {verb} confidence: on average from {before:.1%} to {after:.1%}. {kept}"
    )


def severity(bound: float) -> str:
    """Say how large the calibration error can be if nothing is done.

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
    """Return what has changed between source and target, each with its two numbers."""
    source, seen, gains = background.card.reference.evidence, result.signals, result.gains
    signal = gains.get("signal")
    rows = [
        ("homophily", "Homophily", source.homophily, seen.get("homophily"), _HOMOPHILY),
        ("snr", "Signal-to-noise ratio of the features", source.snr, seen.get("snr"), _SNR),
        (
            "degree",
            "Typical number of neighbours",
            float(np.expm1(source.log_degree)),
            float(np.expm1(seen["log_degree"])),
            _DEGREE,
        ),
        ("signal", "Signal left in the logits", 1.0 if signal is not None else None, signal, _GAIN),
        ("logit_size", "Mean size of the logits", source.mean_abs_logit, *_size(seen)),
    ]
    return [
        {"key": key, "name": name, "source": was, "target": now, "meaning": _compare(was, now, say)}
        for key, name, was, now, say in rows
    ]


# (lower, higher) than at the source.
_HOMOPHILY = (
    "Fewer edges join nodes that are predicted alike: neighbours say less about each other.",
    "More edges join nodes that are predicted alike: neighbours confirm each other more.",
)
_SNR = (
    "The features tell the predicted classes apart less well than at the source.",
    "The features tell the predicted classes apart better than at the source.",
)
_DEGREE = (
    "Nodes have fewer neighbours to average over, so more noise stays in.",
    "Nodes have more neighbours to average over, so more noise cancels.",
)
_GAIN = (
    "Part of what told the classes apart is lost or drowned.",
    "The classes stand further apart than at the source.",
)
_SIZE = (
    "The model claims less per node than at the source.",
    "The model claims more per node than at the source.",
)


def _size(seen: dict[str, float]) -> tuple[float, tuple[str, str]]:
    return seen["mean_abs_logit"], _SIZE


def _compare(was: float | None, now: float | None, words: tuple[str, str]) -> str:
    if was is None or now is None:
        return "Could not be measured on both graphs."
    if abs(now - was) <= _SAME * abs(was):
        return "About as at the source."
    return words[0] if now < was else words[1]


def next_steps(result: Findings, background: Background) -> list[dict[str, Any]]:
    """Return what to do now: accept, take labels, retrain; the first is the most important."""
    accuracy, source = result.accuracy, background.card.reference.accuracy
    steps = []
    wanted = labels_to_take(result, background)
    if wanted:
        more = " more" if result.num_labels else ""
        text = (
            f"They would bring the accuracy to within {CAUTION_WIDTH:.0%}. The first command picks "
            "them, spread over confidence; the second takes them into the answer."
        )
        commands = ["graphtemper suggest-labels", "graphtemper recalibrate --labels"]
        steps.append(_step("label", f"Label about {wanted}{more} nodes", text, *commands))
    strange = background.response.novelty(result.signals) > CAUTION_NOVELTY
    if result.verdict == "abstain" and strange:
        steps.append(_step("retrain", "Retrain, if such graphs are here to stay", _STRANGE))
    elif result.verdict != "abstain" and accuracy.high < source:
        text = (
            f"At the source the model was right {source:.1%} of the time, here at most "
            f"{accuracy.high:.1%}. A temperature makes it say so; it does not make it right more "
            "often."
        )
        steps.append(_step("retrain", "Retrain, or decide that the accuracy is enough", text))
    if result.verdict == "trust":
        return [_step("accept", "Accept", _ACCEPT), *steps]
    if result.verdict == "caution":
        text = (
            "The recalibrated probabilities are the best available; plan for the low end of the "
            f"interval, an accuracy of {accuracy.low:.1%}."
        )
        return [*steps, _step("accept", "Accept with a margin", text)]
    return [*steps, _step("hold", "Do not automate on these probabilities", _HOLD)]


_ACCEPT = "Use the recalibrated probabilities. Run this again when the graph has changed."
_STRANGE = (
    "Nothing like this graph was seen when the card was made. Train on labelled nodes of it, or of "
    "graphs like it, and build a new card."
)
_HOLD = "Until labels are there, send decisions that rest on the confidence to a person."


def _step(action: str, title: str, text: str, *commands: str) -> dict[str, Any]:
    return {"action": action, "title": title, "text": text, "commands": list(commands)}


def labels_to_take(result: Findings, background: Background) -> int:
    """Return how many labels are still missing to know the accuracy well; 0 where it is known."""
    if result.verdict == "trust":
        return 0
    accuracy = result.accuracy
    strange = background.response.novelty(result.signals) > ABSTAIN_NOVELTY
    # An interval that does not apply says nothing about which accuracies are possible.
    hardest = (
        0.5 if strange and not result.num_labels else min(max(0.5, accuracy.low), accuracy.high)
    )
    weights = background.labels.weights
    taken = effective_count(weights) if weights.size else 0.0
    left = len(result.probabilities) - int(weights.size)
    return max(min(labels_needed(hardest) - int(taken), left), 0)


def suggestion(result: Findings, background: Background) -> dict[str, Any] | None:
    """Return nodes to label, with their weights; None where labels exist or none are wanted."""
    wanted = labels_to_take(result, background)
    if not wanted or result.num_labels:
        return None
    plan = suggest_labels(result, wanted)
    return {"nodes": plan.nodes.tolist(), "weights": plan.weights.tolist()}
