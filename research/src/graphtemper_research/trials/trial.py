"""A model frozen at its source, every method's answer on a target, and the scores.

The methods see targets without labels; only `score` reads the labels of a target.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from graphtemper import (
    Graph,
    Observation,
    SourceCard,
    errors,
    metrics,
    recalibrate,
    stac,
    temperature,
)
from graphtemper.estimators import ATC, DoC
from graphtemper.models import SIGN, Predictor
from graphtemper.recalibration import Recalibration
from graphtemper_research.baselines import stac_variants
from graphtemper_research.harness.cells import Show
from graphtemper_research.harness.frame import Rows
from graphtemper_research.harness.numeric import FloatArray, nearest_temperature, stream
from graphtemper_research.harness.runner import COMPOSITIONS
from graphtemper_research.models import GCN
from graphtemper_research.trials.pyg_modules import LAYERS, Module

Indices = NDArray[np.int64]

UNCALIBRATED, SOURCE, ATLAS, ORACLE = "uncalibrated", "source-T", "atlas", "oracle-T"
PEERS = (UNCALIBRATED, SOURCE, "STAC", "ATC", "DoC")
METHODS = (*PEERS, ATLAS, ORACLE)
VERDICTS = ("trust", "caution", "abstain")
# A trusted answer may cost this much more ECE than leaving the source temperature alone.
TOLERANCE = 0.02
# The first seed of targets; the atlas draws its seeds from 2^62 others.
TARGET_SEED = 1_000_000

MODELS: dict[str, Callable[[int], SIGN | GCN | Module]] = {
    "SIGN": lambda seed: SIGN(hops=2, C=1.0, tol=1e-4),
    "GCN": lambda seed: GCN(hidden=64, epochs=200, dropout=0.5, seed=seed),
    **{name: partial(Module, name) for name in LAYERS},
}


def check_models(names: Sequence[str], known: Iterable[str] = MODELS) -> Sequence[str]:
    """Return the names of models, or refuse those that are not known.

    Examples
    --------
    >>> check_models(("MLP",))
    Traceback (most recent call last):
    graphtemper.errors.InputError: unknown model 'MLP'; choose from SIGN, GCN, ...
    """
    unknown = [name for name in names if name not in known]
    if unknown or not names:
        refused = repr(unknown[0]) if unknown else "nothing"
        raise errors.choice(f"unknown model {refused}; choose from {', '.join(known)}.")
    return names


def split(graph: Graph, seed: int) -> tuple[Indices, Indices, Indices]:
    """Return the nodes for training (50 %), for the card (25 %) and for the scores (25 %).

    Examples
    --------
    >>> g = Graph(features=[[1.0]] * 8, edges=[[0, 1]], labels=[0, 1] * 4)
    >>> [part.size for part in split(g, 1)]
    [4, 2, 2]
    """
    order = _shuffled(graph, seed)
    train, val, test = np.split(order, [order.size // 2, 3 * order.size // 4])
    return train, val, test


def halves(graph: Graph, seed: int) -> tuple[Indices, Indices]:
    """Return the nodes for training and for the card, where another graph is scored.

    Examples
    --------
    >>> g = Graph(features=[[1.0]] * 8, edges=[[0, 1]], labels=[0, 1] * 4)
    >>> [part.size for part in halves(g, 1)]
    [4, 4]
    """
    order = _shuffled(graph, seed)
    return order[: order.size // 2], order[order.size // 2 :]


def _shuffled(graph: Graph, seed: int) -> Indices:
    # Seeds start at 1: one graph's labels were generated with seed 0's permutation.
    # Not the plain generator: minesweeper drew its visible cells with the plain seed 1.
    return stream(seed, "trial split").permutation(graph.labelled)


def check_size(graph: Graph, fewest_nodes: int) -> None:
    """Refuse a graph with too few labelled nodes.

    Examples
    --------
    >>> check_size(Graph(features=[[1.0]], edges=[], labels=[0], name="tiny"), 1000)
    Traceback (most recent call last):
    graphtemper.errors.InputError: the graph 'tiny' has 1 labelled nodes; ...
    """
    if graph.labelled.size < fewest_nodes:
        raise errors.too_few(
            f"the graph {graph.name!r} has {graph.labelled.size} labelled nodes; the evaluation "
            f"needs at least {fewest_nodes}."
        )


def hide_labels(graph: Graph, nodes: Indices) -> Graph:
    """Return the graph without the labels of some nodes: shifts of homophily read all labels.

    Examples
    --------
    >>> g = Graph(features=[[1.0]] * 3, edges=[[0, 1]], labels=[0, 1, 1])
    >>> hide_labels(g, np.array([2])).labels.tolist()
    [0, 1, -1]
    """
    assert graph.labels is not None
    labels = graph.labels.copy()
    labels[nodes] = -1
    return graph.replace(labels=labels)


@dataclass(frozen=True)
class Answer:
    """A method's answer on a target without labels."""

    temperature: float
    accuracy: float | None = None
    low: float | None = None
    high: float | None = None
    verdict: str | None = None

    @classmethod
    def of(cls, result: Recalibration) -> Answer:
        """Return the answer of `recalibrate`."""
        accuracy = result.accuracy
        stated = (accuracy.value, accuracy.low, accuracy.high)
        return cls(result.temperature, *stated, result.verdict)


@dataclass(frozen=True)
class Peers:
    """The methods to compare with, fitted at the source."""

    source_temperature: float
    threshold: float
    estimators: dict[str, ATC | DoC]

    @classmethod
    def fit(cls, predictor: Predictor, graph: Graph, nodes: Indices) -> Peers:
        """Fit to the labelled nodes of the card, whose own temperature is rounded."""
        assert graph.labels is not None
        logits = Observation(predictor, graph, nodes).logits
        source_temperature = temperature.solve(logits, graph.labels[nodes]).temperature
        source = Observation(predictor, graph, nodes, temperature=source_temperature)
        estimators: dict[str, ATC | DoC] = {"ATC": ATC(), "DoC": DoC()}
        for item in estimators.values():
            item.fit(source, graph.labels[nodes])
        return cls(source_temperature, stac.threshold(predictor, graph, nodes), estimators)

    def answer(
        self, predictor: Predictor, target: Graph, nodes: Indices, seed: int
    ) -> dict[str, Answer]:
        """Return the answer of every peer on an unlabelled target, in the order of `PEERS`."""
        printed = stac.stac(
            predictor,
            target,
            self.threshold,
            perturbation="both",
            level=stac_variants.REAL_FEATURE_LEVEL,
            nodes=nodes,
            seed=seed,
        )
        answers = {
            "uncalibrated": Answer(1.0),
            SOURCE: Answer(self.source_temperature),
            "STAC": Answer(printed.temperature, printed.accuracy),
        }
        observation = Observation(predictor, target, nodes, temperature=self.source_temperature)
        for name, estimator in self.estimators.items():
            estimate = estimator.estimate(observation)
            found = nearest_temperature(observation.logits, estimate.value)
            answers[name] = Answer(found, estimate.value, estimate.low, estimate.high)
        return answers


@dataclass(frozen=True)
class Source:
    """A model frozen at its source, with its card and peers fitted to the same nodes."""

    predictor: Predictor
    card: SourceCard
    peers: Peers
    num_nodes: int

    @classmethod
    def prepare(
        cls,
        predictor: SIGN | GCN | Module,
        graph: Graph,
        train: Indices,
        val: Indices,
        seed: int,
        compositions: int = COMPOSITIONS,
        *,
        progress: Show | None = None,
    ) -> Source:
        """Train on some labelled nodes; make the card and fit the peers on others.

        The graph must not hold the labels of scored nodes; see `hide_labels`.
        """
        frozen = predictor.fit(graph, train)
        card = SourceCard.build(
            frozen, graph, val, seed=seed, compositions=compositions, progress=progress
        )
        peers = Peers.fit(frozen, graph, val)
        return cls(frozen, card, peers, int(val.size))

    @classmethod
    def of_split(
        cls,
        graph: Graph,
        model: str,
        seed: int,
        compositions: int,
        progress: Show | None = None,
        *,
        fewest_nodes: int = 0,
    ) -> tuple[Source, Indices, Indices]:
        """Prepare a model of `MODELS` on a split of a graph.

        Returns the source, the nodes of its card and the nodes to score.
        """
        check_size(graph, fewest_nodes)
        train, val, test = split(graph, seed)
        source = cls.prepare(
            MODELS[model](seed),
            hide_labels(graph, test),
            train,
            val,
            seed,
            compositions,
            progress=progress,
        )
        return source, val, test

    def answers(self, target: Graph, nodes: Indices, seed: int) -> dict[str, Answer]:
        """Return the answers of the peers and of the atlas on some nodes of a target."""
        hidden = target.replace(labels=None)
        answers = self.peers.answer(self.predictor, hidden, nodes, seed)
        answers[ATLAS] = self.ask(hidden, nodes, seed)
        return answers

    def ask(
        self, target: Graph, nodes: Indices, seed: int, card: SourceCard | None = None
    ) -> Answer:
        """Return the answer of the atlas, from the source's card or from another one."""
        return Answer.of(recalibrate(self.predictor, target, card or self.card, nodes, seed=seed))

    def logits(self, target: Graph, nodes: Indices) -> FloatArray:
        """Return the frozen model's logits of some nodes."""
        return Observation(self.predictor, target, nodes).logits


# The columns that `score` fills.
SCORES = (
    "method",
    "temperature",
    "ece",
    "nll",
    "accuracy",
    "estimate",
    "low",
    "high",
    "verdict",
    "nodes",
)


def score(logits: FloatArray, labels: Indices, answers: dict[str, Answer]) -> Rows:
    """Score every answer, and then the oracle's, against the target's labels.

    An infinite NLL, of a method that is certain and wrong, is None: JSON has no infinity.

    Examples
    --------
    >>> rows = score(np.array([[0.0, 1.0], [2.0, 0.0]]), np.array([1, 1]), {"mine": Answer(1.0)})
    >>> [(row["method"], row["accuracy"], row["nodes"]) for row in rows]
    [('mine', 0.5, 2), ('oracle-T', 0.5, 2)]
    """
    accuracy = float((logits.argmax(axis=1) == labels).mean())
    oracle = Answer(temperature.solve(logits, labels).temperature)
    rows = []
    for method, answer in (answers | {ORACLE: oracle}).items():
        probabilities = temperature.apply(logits, answer.temperature)
        nll = metrics.nll(probabilities, labels)
        values = (
            method,
            answer.temperature,
            metrics.ece(probabilities, labels),
            nll if math.isfinite(nll) else None,
            accuracy,
            answer.accuracy,
            answer.low,
            answer.high,
            answer.verdict,
            int(labels.size),
        )
        rows.append(dict(zip(SCORES, values, strict=True)))
    return rows
