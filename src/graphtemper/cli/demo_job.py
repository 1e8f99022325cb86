"""The main job end to end on a built-in graph: train, card, shift, recalibrate, score."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from graphtemper import SourceCard, errors, metrics, recalibrate, shifts, temperature
from graphtemper._core.reproducible import stream
from graphtemper.card.atlas import Progress
from graphtemper.graph.graph import Graph
from graphtemper.models import SIGN
from graphtemper.recalibration import Recalibration
from graphtemper.recalibration.decisions.metrics import Metrics, title
from graphtemper.recalibration.report import style
from graphtemper.theory import csbm

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NUM_NODES, NUM_FEATURES, NUM_CLASSES = 2400, 16, 3
NOISE = shifts.noise(0.7)
SHIFT = shifts.compose(shifts.homophily(-0.25), NOISE)
# The target's seed; the atlas draws its own from 2^62 others.
TARGET_SEED = 1_000_000
COMPOSITIONS = 30
FRAUD: dict[str, Any] = {"positive": 1, "threshold": 0.5, "k": 50, "costs": [[0, 1], [20, 0]]}


@dataclass(frozen=True)
class Demo:
    """An answer and its scores, which are the only use of the target's labels."""

    answer: Recalibration
    true_accuracy: float
    scores: list[dict[str, Any]]
    probabilities: dict[str, NDArray[np.float64]]
    labels: NDArray[np.int64]
    metrics: Metrics | None = None

    @property
    def decided(self) -> list[dict[str, Any]]:
        """The metrics of decisions in words, next to the true values."""
        assert self.metrics is not None
        truth = metrics.decisions(self.answer.probabilities, self.labels, **FRAUD)
        return [
            {"metric": title(name, FRAUD["k"]), "estimated": text, "true": truth[name]}
            for name, text in self.metrics.rows().items()
        ]

    def to_dict(self) -> dict[str, Any]:
        """Return the answer and the scores as plain values, by the names of the schema."""
        scores = {"true_accuracy": self.true_accuracy, "scores": self.scores}
        decided = {} if self.metrics is None else {"decisions": self.decided}
        return self.answer.to_dict() | scores | decided


def source_graph(seed: int, fraud: bool = False) -> Graph:
    """Draw a graph of three classes and rotate its features, so that every column has signal.

    With ``fraud`` it has two, and one node in twelve is of the second.
    """
    graph = csbm.sample(
        2 * NUM_NODES if fraud else NUM_NODES,
        degree=8,
        homophily=0.75,
        snr=1.0,
        num_classes=2 if fraud else NUM_CLASSES,
        num_features=NUM_FEATURES,
        seed=seed,
    )
    if fraud:
        assert graph.labels is not None
        kept = stream(seed, "demo fraud").random(graph.num_nodes) < np.where(graph.labels, 0.09, 1)
        graph = graph.subgraph(np.flatnonzero(kept)).replace(class_names=("licit", "fraud"))
    square = stream(seed, "demo rotation").standard_normal((NUM_FEATURES, NUM_FEATURES))
    return graph.replace(features=graph.features @ np.linalg.qr(square)[0])


def run(seed: int = 0, *, fraud: bool = False, progress: Progress | None = None) -> Demo:
    """Train and build a card on one graph, and recalibrate on a noisier, less homophilous one.

    Parameters
    ----------
    seed
        Seed of all random draws.
    fraud
        Whether to find a rare class, and judge decisions about it.
    progress
        Called with the numbers of finished and of all environments of the card.
    """
    if seed < 0:
        raise errors.range(f"seed must be 0 or more, not {seed}.")
    graph = source_graph(seed, fraud)
    size = graph.num_nodes
    order = stream(seed, "demo split").permutation(size)
    train, val, test = np.split(order, [size // 2, 3 * size // 4])
    assert graph.labels is not None
    labels = graph.labels.copy()
    labels[test] = -1  # a shift of homophily reads all labels of a graph
    source = graph.replace(labels=labels)
    model = SIGN(hops=2, C=1.0).fit(source, train)
    card = SourceCard.build(
        model, source, val, seed=seed, compositions=COMPOSITIONS, progress=progress
    )
    target = (NOISE if fraud else SHIFT)(graph, TARGET_SEED + seed)
    result = recalibrate(model, target.replace(labels=None), card, test, seed=seed)
    truth, logits = graph.labels[test], model(target)[test].astype(np.float64)
    candidates = {
        "source": card.probe.temperature,
        "atlas (label-free)": result.temperature,
        "oracle (uses labels)": temperature.solve(logits, truth).temperature,
    }
    probabilities = {name: temperature.apply(logits, t) for name, t in candidates.items()}
    scores = [
        {
            "temperature_of": name,
            "temperature": candidates[name],
            "mean_confidence": float(p.max(axis=1).mean()),
            "ece": metrics.ece(p, truth),
            "nll": metrics.nll(p, truth),
        }
        for name, p in probabilities.items()
    ]
    return Demo(
        answer=result,
        true_accuracy=float((logits.argmax(axis=1) == truth).mean()),
        scores=scores,
        probabilities=probabilities,
        labels=truth,
        metrics=result.metrics(**FRAUD) if fraud else None,
    )


def draw(figure: Figure, demo: Demo) -> None:
    """Draw the reliability diagram before and after."""
    panels = figure.subplots(1, 2, sharey=True)
    curves = {"source": (style.RED, "before"), "atlas (label-free)": (style.GREEN, "after")}
    lowest = 1.0 / demo.answer.probabilities.shape[1]
    for axes, (name, (colour, word)) in zip(panels, curves.items(), strict=True):
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
