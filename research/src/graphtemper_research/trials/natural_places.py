"""Environments of a family as a frozen model sees them, and every method's answers about one.

Only draws of labels and the scores read the labels of a target.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np

from graphtemper import SourceCard, temperature
from graphtemper._core.checks import FloatArray
from graphtemper._core.numerics import log_odds, to_share
from graphtemper._core.reproducible import stream
from graphtemper.card.environments import Environment
from graphtemper.card.reading import Reading, read_evidence, second_estimate
from graphtemper.graph.graph import Graph
from graphtemper.metrics import ece
from graphtemper.models.predictor import Predictor
from graphtemper.recalibration.answer import answer
from graphtemper.recalibration.few_labels import NO_LABELS, Labels
from graphtemper.signals import evidence
from graphtemper.signals.observation import Observation
from graphtemper.temperature.scaling import nearest_temperature
from graphtemper_research.graphs.datasets import load_any as load_graph
from graphtemper_research.harness.cells import Show
from graphtemper_research.harness.frame import Rows
from graphtemper_research.trials.graph_names import short
from graphtemper_research.trials.natural_families import Family, scored_nodes
from graphtemper_research.trials.trial import (
    MODELS,
    ORACLE,
    SOURCE,
    TARGET_SEED,
    Answer,
    Indices,
    halves,
    score,
)

UNCALIBRATED = "uncalibrated"
LATEST, POOLED, GAP = "latest-T", "pooled-T", "mean gap"
NONE, ONE, ALL = "no environment", "one environment", "all environments"
PAST, PAST_LATEST = "past environments", "latest past-T"
POISONED = "one environment with wrong labels"
BASELINES = (UNCALIBRATED, SOURCE, LATEST, POOLED, GAP, NONE)
COUNTS, DRAWS = (20, 50), 2
# Accuracies at which the ECE of a target is kept, as log-odds.
GRID = np.linspace(-4.0, 5.0, 37)
WITH = {NONE: "labels", ALL: "labels and environments"}


def label_method(count: int, basis: str, draw: int) -> str:
    """Return the name of an answer with labels.

    Examples
    --------
    >>> label_method(50, NONE, 1)
    '50 labels, draw 1'
    """
    return f"{count} {WITH[basis]}, draw {draw}"


def alone_method(count: int, draw: int) -> str:
    """Return the name of the temperature that is fitted to a draw of labels and nothing else.

    Examples
    --------
    >>> alone_method(50, 1)
    '50 labels, temperature alone, draw 1'
    """
    return f"{count} labels, temperature alone, draw {draw}"


def methods(others: bool, in_time: bool) -> list[str]:
    """Return the names of all answers about one target, in the order of its rows.

    ``others`` says whether the family has a third environment to learn from.
    """
    names = [SOURCE, UNCALIBRATED, NONE]
    names += [LATEST, POOLED, GAP, ONE, ALL, POISONED] if others else []
    bases = tuple(WITH) if others else (NONE,)
    names += [label_method(*choice) for choice in product(COUNTS, bases, range(1, DRAWS + 1))]
    names += [alone_method(*choice) for choice in product(COUNTS, range(1, DRAWS + 1))]
    past = [PAST_LATEST, PAST] if in_time else []
    return [*names, *past, ORACLE]


@dataclass(frozen=True, eq=False)
class Place:
    """One environment of a family as a frozen model sees it."""

    name: str
    graph: Graph
    nodes: Indices
    logits: FloatArray
    classes: Indices
    known: Environment

    @classmethod
    def visit(
        cls, predictor: Predictor, card: SourceCard, name: str, trained: Indices, seed: int
    ) -> Place:
        """Load an environment and measure what a card keeps of it."""
        graph = load_graph(name)
        nodes = scored_nodes(graph, name, trained, seed)
        assert graph.labels is not None
        learned = card.learn(predictor, graph, nodes, name=short(name))
        logits = Observation(predictor, graph, nodes).logits
        return cls(name, graph, nodes, logits, graph.labels[nodes], learned.environments[0])

    @property
    def poisoned(self) -> Environment:
        """What a card keeps of the environment if every label is that of the next class."""
        wrong = (self.classes + 1) % self.logits.shape[1]
        accuracy = float((self.logits.argmax(axis=1) == wrong).mean())
        return replace(self.known, accuracy=accuracy)


@dataclass(frozen=True, eq=False)
class Target:
    """A target without labels: measured once, then compared with any card."""

    card: SourceCard
    observation: Observation
    measured: evidence.Evidence

    @classmethod
    def observe(cls, predictor: Predictor, card: SourceCard, place: Place, seed: int) -> Target:
        """Measure an environment without its labels."""
        hidden = place.graph.replace(labels=None)
        observation = Observation(predictor, hidden, place.nodes, seed=seed)
        return cls(card, observation, evidence.measure(observation, card.probe))

    def ask(self, known: Sequence[Environment], labels: Labels = NO_LABELS) -> Answer:
        """Return the answer of the card with some labelled environments."""
        found = answer(self.reading(known), self.observation.logits, labels)
        stated = (found.accuracy.value, found.accuracy.low, found.accuracy.high)
        return Answer(found.temperature, *stated, found.verdict)

    def reading(self, known: Sequence[Environment] = ()) -> Reading:
        """Return the measurements, compared with the card and some labelled environments."""
        card = replace(self.card, environments=tuple(known))
        own = self.observation.own_moments
        return read_evidence(card, self.measured, self.observation.num_nodes, own, flat=False)

    def after_mean_gap(self, known: Sequence[Environment]) -> Answer:
        """Return mean confidence corrected by the mean gap: no atlas, no prior."""
        gap = float(np.mean([item.gap for item in known]))
        value = to_share(log_odds(self.measured.confidence) + gap)
        found, _ = nearest_temperature(self.observation.logits, value)
        return Answer(found, value)


def pooled(places: Sequence[Place]) -> Answer:
    """Return the temperature that is likeliest on the nodes of several environments together."""
    logits = np.concatenate([place.logits for place in places])
    classes = np.concatenate([place.classes for place in places])
    return Answer(temperature.solve(logits, classes).temperature)


def answers_about(
    target: Target, place: Place, others: Sequence[Place], past: Sequence[Place], seed: int
) -> dict[str, Answer]:
    """Return every method's answer about one target; only labelled draws read its labels."""
    rng = stream(seed, f"natural {short(place.name)}")
    known = [item.known for item in others]
    found = {SOURCE: Answer(target.card.temperature), UNCALIBRATED: Answer(1.0)}
    found[NONE] = target.ask([])
    if others:
        one = int(rng.integers(len(others)))
        poisoned = [*known[:one], others[one].poisoned, *known[one + 1 :]]
        found |= {
            LATEST: pooled(others[-1:]),
            POOLED: pooled(others),
            GAP: target.after_mean_gap(known),
            ONE: target.ask([known[one]]),
            ALL: target.ask(known),
            POISONED: target.ask(poisoned),
        }
    draws = {
        (count, draw): _drawn(place, count, rng) for count in COUNTS for draw in range(1, DRAWS + 1)
    }
    bases = tuple(WITH) if others else (NONE,)
    for count, basis, draw in product(COUNTS, bases, range(1, DRAWS + 1)):
        basis_known = known if basis == ALL else []
        found[label_method(count, basis, draw)] = target.ask(basis_known, draws[count, draw])
    for (count, draw), labels in draws.items():
        alone = temperature.solve(place.logits[labels.rows], labels.classes)
        found[alone_method(count, draw)] = Answer(alone.temperature)
    if past:
        found[PAST_LATEST] = pooled(past[-1:])
        found[PAST] = target.ask(
            [replace(item.known, when=float(number)) for number, item in enumerate(past)]
        )
    return found


def _drawn(place: Place, count: int, rng: np.random.Generator) -> Labels:
    """Return the labels of some random nodes, at most half of all."""
    size = min(count, place.nodes.size // 2)
    rows = np.sort(rng.choice(place.nodes.size, size, replace=False))
    return Labels(rows, place.classes[rows])


def measure(
    family: Family, source: str, model: str, seed: int, compositions: int, show: Show | None = None
) -> Rows:
    """Return one row per target and method for one source of a family."""
    home = load_graph(source)
    train, val = halves(home, seed)
    predictor = MODELS[model](seed).fit(home, train)
    card = SourceCard.build(
        predictor, home, val, seed=seed, compositions=compositions, progress=show
    )
    trained = train if family.same_nodes else train[:0]
    places = {
        name: Place.visit(predictor, card, name, trained, seed)
        for name in family.graphs
        if name != source
    }
    rows: Rows = []
    for name, place in places.items():
        target = Target.observe(predictor, card, place, TARGET_SEED + seed)
        others = [item for other, item in places.items() if other != name]
        past = [places[other] for other in family.history(source, name)]
        found = answers_about(target, place, others, past, seed)
        facts = {"target": short(name), "card_nodes": int(val.size)}
        scores = [facts | row for row in score(place.logits, place.classes, found)]
        scores[0]["reading"] = _facts(target, place)
        rows += scores
    return rows


def _facts(target: Target, place: Place) -> dict[str, Any]:
    """Return what rules without labels read, and the ECE at the accuracies of `GRID`."""
    reading, logits = target.reading(), target.observation.logits
    eces = []
    for point in GRID:
        divisor, _ = nearest_temperature(logits, to_share(float(point)))
        eces.append(round(ece(temperature.apply(logits, divisor), place.classes), 6))
    return {
        "atlas": reading.atlas_centre,
        "confidence": log_odds(reading.evidence.confidence),
        "second": _second(reading, reading.evidence.confidence, reading.evidence.second_agreement),
        "fraction": reading.moved_fraction,
        "novelty": reading.novelty,
        "ece": eces,
        "environment": _environment(reading, place.known),
    }


def _second(reading: Reading, confidence: float, agreement: float | None) -> float:
    return second_estimate(log_odds(confidence), reading.card.reference, agreement)


def _environment(reading: Reading, known: Environment) -> dict[str, Any]:
    """Return what an environment tells about others: its truth, its estimates, where it lies."""
    atlas = log_odds(reading.card.reference.accuracy) + reading.response.predict(known.signals)[0]
    return {
        "truth": known.truth,
        "variance": known.variance,
        "confidence": log_odds(known.confidence),
        "second": _second(reading, known.confidence, known.second_agreement),
        "atlas": atlas,
        "place": reading.response.coordinates(known.signals).round(4).tolist(),
        "means": [round(number, 5) for number in known.sketch],
    }
