"""The main job end to end on an embedded graph: train, card, shift, recalibrate, score."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from graphtemper import SourceCard, metrics, recalibrate, shifts, temperature
from graphtemper._core.random_streams import stream
from graphtemper.card.atlas import Progress
from graphtemper.errors import InputError
from graphtemper.estimators import Estimate
from graphtemper.graph.graph import Graph
from graphtemper.models import SIGN
from graphtemper.recalibration.job import Recalibration
from graphtemper.recalibration.report import style
from graphtemper.theory import csbm

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NUM_NODES, NUM_FEATURES, NUM_CLASSES = 2400, 16, 3
SHIFT = shifts.compose(shifts.homophily(-0.25), shifts.noise(0.7))
# The target's seed; the atlas draws its own from 2^62 others.
TARGET_SEED = 1_000_000
COMPOSITIONS = 30


@dataclass(frozen=True)
class Demo:
    """What the demonstration found; labels of the target are used only for the scores."""

    verdict: str
    reasons: list[str]
    accuracy: Estimate
    true_accuracy: float
    scores: list[dict[str, Any]]
    probabilities: dict[str, NDArray[np.float64]]
    labels: NDArray[np.int64]
    answer: Recalibration

    def to_dict(self) -> dict[str, Any]:
        """Return the verdict and the table as plain values."""
        return {
            "verdict": self.verdict,
            "reasons": self.reasons,
            "estimated_accuracy": self.accuracy.value,
            "accuracy_interval": [self.accuracy.low, self.accuracy.high],
            "true_accuracy": self.true_accuracy,
            "scores": self.scores,
        }


def source_graph(seed: int) -> Graph:
    """Draw a graph of three classes and rotate its features, so that every column has signal."""
    graph = csbm.sample(
        NUM_NODES,
        degree=8,
        homophily=0.75,
        snr=1.0,
        num_classes=NUM_CLASSES,
        num_features=NUM_FEATURES,
        seed=seed,
    )
    square = stream(seed, "demo rotation").standard_normal((NUM_FEATURES, NUM_FEATURES))
    return graph.replace(features=graph.features @ np.linalg.qr(square)[0])


def run(seed: int = 0, *, progress: Progress | None = None) -> Demo:
    """Train and make a card on one graph, meet a noisier, less homophilous one, repair it.

    Parameters
    ----------
    seed
        Seed of everything that is drawn.
    progress
        Called with the card's (environments done, environments in all).
    """
    if seed < 0:
        raise InputError(f"seed must be 0 or more, not {seed}.")
    graph = source_graph(seed)
    order = stream(seed, "demo split").permutation(NUM_NODES)
    train, val, test = np.split(order, [NUM_NODES // 2, 3 * NUM_NODES // 4])
    assert graph.labels is not None
    known = graph.labels.copy()
    known[test] = -1  # a shift of homophily reads every label that it sees
    source = graph.replace(labels=known)
    model = SIGN(hops=2, C=1.0).fit(source, train)
    card = SourceCard.build(
        model, source, val, seed=seed, compositions=COMPOSITIONS, progress=progress
    )
    target = SHIFT(graph, TARGET_SEED + seed)
    result = recalibrate(model, target.replace(labels=None), card, test, seed=seed)
    labels, logits = graph.labels[test], model(target)[test].astype(np.float64)
    candidates = {
        "source": card.probe.temperature,
        "atlas (label-free)": result.temperature,
        "oracle (uses labels)": temperature.solve(logits, labels).temperature,
    }
    probabilities = {name: temperature.apply(logits, t) for name, t in candidates.items()}
    scores = [
        {
            "temperature of": name,
            "T": candidates[name],
            "mean confidence": float(p.max(axis=1).mean()),
            "ECE": metrics.ece(p, labels),
            "NLL": metrics.nll(p, labels),
        }
        for name, p in probabilities.items()
    ]
    return Demo(
        verdict=result.verdict,
        reasons=[str(reason) for reason in result.reasons],
        accuracy=result.accuracy,
        true_accuracy=float((logits.argmax(axis=1) == labels).mean()),
        scores=scores,
        probabilities=probabilities,
        labels=labels,
        answer=result,
    )


def draw(figure: Figure, demo: Demo) -> None:
    """Draw the reliability diagram before and after."""
    panels = figure.subplots(1, 2, sharey=True)
    shown = {"source": (style.RED, "before"), "atlas (label-free)": (style.GREEN, "after")}
    lowest = 1.0 / NUM_CLASSES
    for axes, (name, (colour, word)) in zip(panels, shown.items(), strict=True):
        curve = metrics.reliability_curve(demo.probabilities[name], demo.labels, bins=10)
        axes.plot([lowest, 1], [lowest, 1], color=style.GREY, linewidth=0.8)
        axes.errorbar(
            curve.confidence,
            curve.accuracy,
            [curve.accuracy - curve.low, curve.high - curve.accuracy],
            fmt="o-",
            color=colour,
        )
        error = metrics.ece(demo.probabilities[name], demo.labels)
        axes.set(xlabel="confidence", title=f"{word}: ECE {error:.3f}", xlim=(lowest - 0.02, 1.02))
    panels[0].set_ylabel("accuracy")
