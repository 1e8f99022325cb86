"""The homophily grid behind the slope and bound figures: measured once, read by both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphtemper import metrics, mixture, temperature, theory
from graphtemper.errors import NotIdentifiableError
from graphtemper.experiments.frozen_binary import Frozen, Setting, measure, summary

SETTING = Setting(num_nodes=4000, degree=25, h_source=0.8, snr=1.0)
TARGETS = (0.55, 0.60, 0.65, 0.70, 0.75, 0.80, 0.85, 0.90)
SEEDS = 6


@cache
def measured(seeds: int = SEEDS) -> tuple[dict[str, Any], ...]:
    """Return one row per target homophily: theory's predictions beside seed averages."""
    frozen = [Frozen.train(SETTING, seed) for seed in range(seeds)]
    return tuple(_row(h, frozen) for h in TARGETS)


def _row(h_target: float, frozen: list[Frozen]) -> dict[str, Any]:
    closed = float(theory.slope(h_target, SETTING.h_source, SETTING.snr))
    finite = float(
        theory.finite_degree_temperature(h_target, SETTING.h_source, SETTING.snr, SETTING.degree)
    )
    runs = []
    for seed, classifier in enumerate(frozen):
        target = SETTING.draw(h_target, seed)
        assert target.labels is not None
        logits = classifier.logits(target)
        run: dict[str, Any] = asdict(measure(logits, target.labels))
        run["slope"] = 1 / run["oracle_temperature"]
        for name, value in (("closed", 1 / closed), ("finite", finite)):
            run[f"ece_{name}"] = metrics.ece(temperature.apply(logits, value), target.labels)
        run["label_free"] = label_free_temperature(logits, target.degrees, classifier.source_snr)
        runs.append(run)
    row: dict[str, Any] = {"h_target": h_target, "closed_slope": closed, "finite_slope": 1 / finite}
    for key in ("accuracy", "slope", "ece", "ece_oracle", "ece_closed", "ece_finite"):
        row[key], row[f"{key}_spread"], row[f"{key}_error"] = summary([run[key] for run in runs])
    row["noise_floor"] = float(np.mean([run["noise_floor"] for run in runs]))
    row["mean_abs_logit"] = float(np.mean([run["mean_abs_logit"] for run in runs]))
    row |= label_free_summary(
        [run["label_free"] for run in runs], [run["oracle_temperature"] for run in runs]
    )
    return row


def label_free_temperature(
    logits: NDArray[np.float64], degrees: NDArray[np.int64], snr: float
) -> float | None:
    """Return the temperature that the unlabelled logits reveal, or None if they do not.

    ``snr`` is the features' signal-to-noise ratio as estimated on the labelled source.
    """
    try:
        return mixture.fit_binary(logits[:, 1] - logits[:, 0], degrees, snr=snr).temperature
    except NotIdentifiableError:
        return None


def label_free_summary(
    answers: Sequence[float | None], oracles: Sequence[float | None]
) -> dict[str, Any]:
    """Summarise the seeds' label-free temperatures, beside the oracle's on the same seeds."""
    pairs = [
        (answer, truth)
        for answer, truth in zip(answers, oracles, strict=True)
        if answer is not None and truth is not None
    ]
    mean, spread, _ = summary([answer for answer, _ in pairs]) if pairs else (None, None, None)
    return {
        "label_free_temperature": mean,
        "label_free_spread": spread,
        "label_free_oracle": float(np.mean([truth for _, truth in pairs])) if pairs else None,
        "label_free_answers": sum(answer is not None for answer in answers),
        "label_free_seeds": len(answers),
    }
