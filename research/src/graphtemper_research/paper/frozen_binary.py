"""The paper's theory setting: a binary CSBM with one feature and a frozen, calibrated classifier.

The classifier is logistic regression (C = 1e6) on the aggregated feature of the source graph; its
temperature is fitted on a second graph from the source; then it is applied to a target graph.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from graphtemper import Graph, csbm, metrics, signals, temperature
from graphtemper.graph import Operator
from graphtemper.models import SGC


@dataclass(frozen=True)
class Setting:
    """Sizes and source parameters shared by all runs of one figure."""

    num_nodes: int
    degree: float
    h_source: float
    snr: float
    operator: Operator = "mean"
    num_classes: int = 2

    def draw(self, homophily: float, seed: int, role: int = 2) -> Graph:
        """Draw a graph of this setting at the given homophily.

        Every point of a grid gets a random stream of its own, so that errors do not repeat.
        ``role`` is 0 for the source, 1 for the graph that calibrates and 2 for the target.
        """
        key = [seed, role, round(1e4 * homophily), round(1e4 * self.snr), self.num_classes]
        return csbm.sample(
            self.num_nodes,
            self.degree,
            homophily,
            self.snr,
            self.num_classes,
            seed=np.random.default_rng(key),
        )


@dataclass(frozen=True)
class Frozen:
    """A classifier fitted and calibrated on a source graph."""

    model: SGC
    source_temperature: float
    source_snr: float

    @classmethod
    def train(cls, setting: Setting, seed: int) -> Frozen:
        """Fit on a source graph, calibrate on another one from the same distribution."""
        source, held_out = (setting.draw(setting.h_source, seed, role) for role in (0, 1))
        model = SGC(hops=1, operator=setting.operator, C=1e6, tol=1e-8)
        model.fit(source)
        assert held_out.labels is not None
        assert source.labels is not None
        return cls(
            model,
            source_temperature=temperature.fit(model(held_out), held_out.labels),
            source_snr=signals.snr_estimate(source.features, source.labels),
        )

    def logits(self, graph: Graph) -> NDArray[np.float64]:
        """Return source-calibrated logits."""
        return self.model(graph).astype(np.float64) / self.source_temperature


@dataclass(frozen=True)
class Measurement:
    """Scores of the frozen classifier on one labelled target graph."""

    accuracy: float
    oracle_temperature: float
    ece: float
    ece_oracle: float
    noise_floor: float
    mean_abs_logit: float


def measure(logits: NDArray[np.float64], labels: NDArray[np.int64]) -> Measurement:
    """Score logits against labels: the oracle temperature, and ECE before and after it."""
    oracle = temperature.fit(logits, labels)
    before, after = temperature.apply(logits), temperature.apply(logits, oracle)
    return Measurement(
        accuracy=float((logits.argmax(axis=1) == labels).mean()),
        oracle_temperature=oracle,
        ece=metrics.ece(before, labels),
        ece_oracle=metrics.ece(after, labels),
        noise_floor=metrics.noise_floor(before),
        mean_abs_logit=float(np.abs(logits[:, 1] - logits[:, 0]).mean()),
    )


def oracle(logits: NDArray[np.float64], labels: NDArray[np.int64]) -> float | None:
    """Return the NLL-optimal temperature, or None where (nearly) every node is right."""
    fitted = temperature.solve(logits, labels)
    return fitted.temperature if fitted.status == "optimal" else None


def summary(values: Sequence[float]) -> tuple[float, float, float]:
    """Return the mean, the standard deviation and the standard error over seeds."""
    array = np.asarray(values, dtype=np.float64)
    spread = float(array.std(ddof=1)) if array.size > 1 else 0.0
    return float(array.mean()), spread, spread / float(np.sqrt(array.size))
