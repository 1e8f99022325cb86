"""The homophily grid behind the slope and bound figures, which share one measurement."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import cache
from typing import Any

import numpy as np

from graphtemper import metrics, temperature, theory
from graphtemper_research.paper.frozen_binary import Frozen, Setting, measure, summary

SETTING = Setting(num_nodes=4000, degree=25, h_source=0.8, snr=1.0)
TARGETS = (0.55, 0.60, 0.65, 0.70, 0.75, 0.80, 0.85, 0.90)
SEEDS = 6
SETTINGS = {
    "N": SETTING.num_nodes,
    "degree": SETTING.degree,
    "h_s": SETTING.h_source,
    "snr": SETTING.snr,
    "h_t": list(TARGETS),
    "seeds": SEEDS,
}
"""What the pages state about the figures that share the grid."""


@cache
def measured(
    seeds: Sequence[int] = range(SEEDS), targets: Sequence[float] = TARGETS
) -> tuple[dict[str, Any], ...]:
    """Return one row per target homophily: theory's predictions next to seed averages."""
    frozen = {seed: Frozen.train(SETTING, seed) for seed in seeds}
    return tuple(_row(h, frozen) for h in targets)


def _row(h_target: float, frozen: Mapping[int, Frozen]) -> dict[str, Any]:
    closed = float(theory.slope(h_target, SETTING.h_source, SETTING.snr))
    finite = float(
        theory.finite_degree_temperature(h_target, SETTING.h_source, SETTING.snr, SETTING.degree)
    )
    runs = []
    for seed, classifier in frozen.items():
        target = SETTING.draw(h_target, seed)
        assert target.labels is not None
        logits = classifier.logits(target)
        run: dict[str, Any] = asdict(measure(logits, target.labels))
        run["slope"] = 1 / run["oracle_temperature"]
        for name, value in (("closed", 1 / closed), ("finite", finite)):
            run[f"ece_{name}"] = metrics.ece(temperature.apply(logits, value), target.labels)
        runs.append(run)
    row: dict[str, Any] = {"h_target": h_target, "closed_slope": closed, "finite_slope": 1 / finite}
    for key in ("accuracy", "slope", "ece", "ece_oracle", "ece_closed", "ece_finite"):
        row[key], row[f"{key}_spread"], row[f"{key}_error"] = summary([run[key] for run in runs])
    row["noise_floor"] = float(np.mean([run["noise_floor"] for run in runs]))
    row["mean_abs_logit"] = float(np.mean([run["mean_abs_logit"] for run in runs]))
    return row
