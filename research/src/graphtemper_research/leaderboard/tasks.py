"""What one cell measures: a graph under known shifts, or a source and its natural targets."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from graphtemper import metrics, temperature
from graphtemper._core.arrays import FloatArray
from graphtemper.card import atlas
from graphtemper.card.card import SourceCard
from graphtemper.errors import InputError
from graphtemper.graph.graph import Graph
from graphtemper_research.harness.cells import Rows
from graphtemper_research.leaderboard.methods import (
    CALIBRATORS,
    ESTIMATORS,
    SOURCE_FITTED,
    UNSEEN,
    UNSEEN_PER_NODE,
    Field,
    Said,
    Target,
    competitors,
)
from graphtemper_research.leaderboard.models import MODELS
from graphtemper_research.trials import graph_names as features
from graphtemper_research.trials import known_shifts
from graphtemper_research.trials import natural_shifts as natural
from graphtemper_research.trials.known_shifts import FEWEST_NODES, SHIFTS
from graphtemper_research.trials.natural_shifts import Pair
from graphtemper_research.trials.trial import (
    ORACLE,
    SCORES,
    TARGET_SEED,
    Indices,
    hide_labels,
    split,
)

SCHEMA = "graphtemper.leaderboard_cell/1"
KNOWN, NATURAL = "known shifts", "natural shifts"
UNSHIFTED = known_shifts.title(None)
TITLED = {known_shifts.title(shift): shift for shift in SHIFTS}
_UNSEEN = (UNSEEN, UNSEEN_PER_NODE)
# What a task scores: the target's title, its labelled graph, and the target itself.
Scored = tuple[str, Graph, Target]


@dataclass(frozen=True)
class Task:
    """A model frozen at one source and everything that is asked about it.

    ``source`` is a graph by name or path. Without ``pairs`` it is scored under shifts of its own,
    by their titles; with them, on their targets.
    """

    source: str
    model: str
    seed: int
    compositions: int
    shifts: tuple[str, ...] = tuple(TITLED)
    pairs: tuple[Pair, ...] = ()
    calibrators: tuple[str, ...] = SOURCE_FITTED

    @property
    def setting(self) -> str:
        """Whether somebody drew the shifts."""
        return NATURAL if self.pairs else KNOWN

    @property
    def graph(self) -> str:
        """What a table calls the source."""
        return features.short(self.source)

    @property
    def methods(self) -> tuple[str, ...]:
        """Who answers; natural shifts have no family that a card could have seen."""
        every = competitors(self.model, self.calibrators)
        return tuple(name for name in every if not (self.pairs and name in _UNSEEN))

    @property
    def title(self) -> str:
        """The cell's file name without its ending.

        Examples
        --------
        >>> Task("cora", "SIGN", 1, 70).title
        'known-cora-SIGN-1'
        """
        return f"{self.setting.split()[0]}-{self.graph}-{self.model}-{self.seed}"

    @property
    def targets(self) -> list[str]:
        """The titles of the targets, in order."""
        if self.pairs:
            return [natural.title(pair) for pair in self.pairs]
        return list(self.shifts)

    @property
    def head(self) -> dict[str, Any]:
        """What the measurement depends on."""
        return {
            "schema": SCHEMA,
            "setting": self.setting,
            "graph": self.graph,
            "model": self.model,
            "seed": self.seed,
            "compositions": self.compositions,
        }

    @property
    def expected(self) -> list[dict[str, str]]:
        """What identifies every row."""
        return [{"shift": title, "method": name} for title in self.targets for name in self.methods]

    @property
    def steps(self) -> int:
        """How many steps `measure` reports: environments, fits, targets."""
        fits = len(_fitted(self)) + len(ESTIMATORS)
        return len(atlas.plan(0, (), self.compositions)) + fits + len(self.targets)


def measure(task: Task, show: Callable[[int, int], None] | None = None) -> Rows:
    """Return one row per target and method; ``show`` is called with (steps done, steps)."""
    done = 0

    def step() -> None:
        nonlocal done
        done += 1
        if show is not None:
            show(done, task.steps)

    def surveyed(count: int, total: int) -> None:
        nonlocal done
        done = count
        if show is not None:
            show(done, task.steps)

    home, train, val, targets = _settle(task)
    predictor = MODELS[task.model](task.seed).fit(home, train)
    card = SourceCard.build(
        predictor, home, val, seed=task.seed, compositions=task.compositions, progress=surveyed
    )
    field = Field.prepare(predictor, card, home, train, val, task.seed, _fitted(task), step)
    rows: Rows = []
    for title, graph, target in targets:
        assert graph.labels is not None
        labels = graph.labels[target.nodes]
        answers = field.answers(target)
        logits = np.asarray(predictor(target.graph), dtype=np.float64)[target.nodes]
        found = score(answers, logits, labels)
        rows += [{"shift": title} | found[name] for name in task.methods]
        step()
    return rows


def _fitted(task: Task) -> tuple[str, ...]:
    return tuple(name for name in task.methods if name in CALIBRATORS)


def _settle(task: Task) -> tuple[Graph, Indices, Indices, Iterator[Scored]]:
    """Return the source as the methods see it, its nodes for training and card, and the targets."""
    if task.pairs:
        graph, home, train, val = natural.at_home(task.pairs[0], task.seed)
        return home, train, val, _natural_targets(task, graph, train)
    graph = features.load(task.source)
    if graph.labelled.size < FEWEST_NODES:
        raise InputError(
            f"the graph {graph.name!r} has {graph.labelled.size} labelled nodes; the evaluation "
            f"needs at least {FEWEST_NODES}."
        )
    train, val, test = split(graph, task.seed)
    return hide_labels(graph, test), train, val, _known_targets(task, graph, train, test)


def _known_targets(task: Task, graph: Graph, train: Indices, test: Indices) -> Iterator[Scored]:
    unlabelled = graph.replace(labels=None)
    for title in task.shifts:
        shift = TITLED[title]
        # The draws of `bench atlas`, whichever of the shifts are asked for.
        draw = TARGET_SEED + 100 * task.seed + list(TITLED).index(title)
        shifted = unlabelled if shift is None else shift(unlabelled, draw)
        family = None if shift is None else shift.family
        yield title, graph, Target(shifted, test, draw, train, family)


def _natural_targets(task: Task, source: Graph, train: Indices) -> Iterator[Scored]:
    for pair, graph, nodes in natural.destinations(task.pairs, source, train):
        hidden = graph.replace(labels=None)
        known = train if pair.same_nodes else None
        yield natural.title(pair), graph, Target(hidden, nodes, TARGET_SEED + task.seed, known)


def score(
    answers: dict[str, Said], logits: FloatArray, labels: Indices
) -> dict[str, dict[str, Any]]:
    """Return every answer's scores, and the oracle's, against the target's labels.

    Methods that change predictions are scored by their own. An infinite NLL is None.

    Examples
    --------
    >>> z, y = np.array([[0.0, 1.0], [2.0, 0.0]]), np.array([1, 1])
    >>> found = score({"sure": Said(np.array([[0.0, 1.0], [1.0, 0.0]]))}, z, y)
    >>> found["sure"]["accuracy"], found["sure"]["nll"], found["oracle-T"]["accuracy"]
    (0.5, None, 0.5)
    """
    oracle = Said(temperature.apply(logits, temperature.solve(logits, labels).temperature))
    found: dict[str, dict[str, Any]] = {}
    for method, said in (answers | {ORACLE: oracle}).items():
        p = said.probabilities
        nll = metrics.nll(p, labels)
        found[method] = dict.fromkeys(SCORES) | {
            "method": method,
            "ece": metrics.ece(p, labels),
            "nll": nll if math.isfinite(nll) else None,
            "brier": metrics.brier(p, labels),
            "accuracy": float((p.argmax(axis=1) == labels).mean()),
            "estimate": said.accuracy,
            "verdict": said.verdict,
            "nodes": int(labels.size),
        }
    return found


def known(names: Sequence[str], models: Sequence[str], seeds: int, **other: Any) -> list[Task]:
    """Return a task for every graph, model and seed."""
    return [
        Task(name, model, seed, **other)
        for name in names
        for model in models
        for seed in range(1, seeds + 1)
    ]


def in_nature(pairs: Sequence[Pair], models: Sequence[str], seeds: int, **other: Any) -> list[Task]:
    """Return a task for every source of the pairs, model and seed."""
    sources = dict.fromkeys(pair.source for pair in pairs)
    return [
        Task(
            source,
            model,
            seed,
            pairs=tuple(pair for pair in pairs if pair.source == source),
            **other,
        )
        for source in sources
        for model in models
        for seed in range(1, seeds + 1)
    ]
