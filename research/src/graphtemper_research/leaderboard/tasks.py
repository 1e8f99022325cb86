"""What one cell measures: a graph under known shifts, or a source and its natural targets."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from graphtemper import Graph, SourceCard, metrics, temperature
from graphtemper_research.harness.cells import Show
from graphtemper_research.harness.frame import Rows
from graphtemper_research.harness.numeric import FloatArray
from graphtemper_research.leaderboard.methods import (
    CALIBRATORS,
    ESTIMATORS,
    RETRAINED,
    RETRAINED_MODEL,
    SOURCE_FITTED,
    UNSEEN,
    UNSEEN_PER_NODE,
    Field,
    Prediction,
    Target,
    competitors,
    fitted,
    transformed,
)
from graphtemper_research.leaderboard.models import MODELS
from graphtemper_research.trials import graph_names, shifted_targets, trial
from graphtemper_research.trials.pairs import Pair, at_home, by_source, destinations
from graphtemper_research.trials.shifted_targets import HOMOPHILY, SHIFTS
from graphtemper_research.trials.trial import ORACLE, Indices

SCHEMA = "graphtemper.leaderboard_cell/4"
BUDGET = 400
"""Forward passes that a card may take, the same for every model: 67 environments."""
FEWEST_NODES = 800
KNOWN, NATURAL = "known shifts", "natural shifts"
UNSHIFTED = shifted_targets.title(None)
TITLED = {shifted_targets.title(shift): shift for shift in (*SHIFTS, *HOMOPHILY)}
ONE_PER_FAMILY = (
    UNSHIFTED,
    "noise(1)",
    "mask(0.5)",
    "rewire(0.5)",
    "drop(0.5)",
    "add(1.5)",
    "shuffle(0.5)",
    "heterogeneous(1.5)",
    "scale(2.5)",
    "homophily(-0.6)",
    "homophily(0.6)",
)
"""The known shifts of the leaderboard: none, one of every family, and homophily both ways."""
_UNSEEN = (UNSEEN, UNSEEN_PER_NODE)
# What a task scores: the target's title, its family, its labelled graph, and the target itself.
Scored = tuple[str, str, Graph, Target]


@dataclass(frozen=True)
class Task:
    """A model frozen at one source, and the targets and methods of its evaluation.

    ``source`` is a graph by name or path. Without ``pairs`` it is scored under shifts of its own,
    by their titles; with them, on their targets. With ``apart`` only these methods answer: they are
    slow, so that they have cells of their own.
    """

    source: str
    model: str
    seed: int
    compositions: int
    shifts: tuple[str, ...] = ONE_PER_FAMILY
    pairs: tuple[Pair, ...] = ()
    calibrators: tuple[str, ...] = SOURCE_FITTED
    apart: tuple[str, ...] = ()

    @property
    def setting(self) -> str:
        """The kind of shifts: known or natural."""
        return NATURAL if self.pairs else KNOWN

    @property
    def graph(self) -> str:
        """The name of the source in a table."""
        return graph_names.short(self.source)

    @property
    def methods(self) -> tuple[str, ...]:
        """The methods; natural shifts have no family that a card could have seen."""
        if self.apart:
            return self.apart
        names = competitors(self.model, self.calibrators)
        return tuple(name for name in names if not (self.pairs and name in _UNSEEN))

    @property
    def title(self) -> str:
        """The cell's file name without its ending.

        Examples
        --------
        >>> Task("cora", "SIGN", 1, 70).title
        'known-cora-SIGN-1'
        """
        name = f"{self.setting.split()[0]}-{self.graph}-{self.model}-{self.seed}"
        return name + ("-" + "+".join(self.apart) if self.apart else "")

    @property
    def targets(self) -> list[str]:
        """The titles of the targets, in order."""
        if self.pairs:
            return [pair.title for pair in self.pairs]
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
            "budget": BUDGET,
            "shifts": [*self.targets],
            "methods": [*self.methods],
            "content": graph_names.content(self.source, *(pair.target for pair in self.pairs)),
        }

    @property
    def steps(self) -> int:
        """How many steps `measure` reports: the card, fits, targets."""
        fitted = sum(name in CALIBRATORS for name in self.methods)
        return fitted + len(self.targets) + (0 if self.apart else 1 + len(ESTIMATORS))


def measure(task: Task, show: Show | None = None) -> Rows:
    """Return one row per target and method; ``show`` is called with (steps done, steps)."""
    done = 0

    def step() -> None:
        nonlocal done
        done += 1
        if show is not None:
            show(done, task.steps)

    if show is not None:
        show(done, task.steps)
    home, train, val, targets = _prepared(task)
    predictor = MODELS[task.model](task.seed).fit(home, train)
    if not task.apart:
        card = SourceCard.build(
            predictor,
            home,
            val,
            seed=task.seed,
            compositions=task.compositions,
            budget=BUDGET,
            progress=False,
        )
        step()
    names = [name for name in task.methods if name in CALIBRATORS]
    calibrators = fitted(names, predictor, home, train, val, task.seed, task.graph, step)
    field = (
        None
        if task.apart
        else Field.prepare(predictor, card, home, val, task.seed, calibrators, step)
    )
    rows: Rows = []
    for title, family, graph, target in targets:
        assert graph.labels is not None
        every = np.asarray(predictor(target.graph), dtype=np.float64)
        answers = field.answers(target) if field else transformed(calibrators, target, every)
        scores = score(answers, every[target.nodes], graph.labels[target.nodes])
        rows += [{"shift": title, "family": family} | scores[name] for name in task.methods]
        step()
    return rows


def _prepared(task: Task) -> tuple[Graph, Indices, Indices, Iterator[Scored]]:
    """Return the source without labels of scored nodes, its nodes, and the targets."""
    if task.pairs:
        graph, home, train, val = at_home(task.pairs[0], task.seed)
        return home, train, val, _natural_targets(task, graph, train)
    graph = graph_names.load(task.source)
    trial.check_size(graph, FEWEST_NODES)
    train, val, test = trial.split(graph, task.seed)
    return trial.hide_labels(graph, test), train, val, _known_targets(task, graph, train, test)


def _known_targets(task: Task, graph: Graph, train: Indices, test: Indices) -> Iterator[Scored]:
    unlabelled = graph.replace(labels=None)
    for title in task.shifts:
        shift = TITLED[title]
        # The draws of `bench atlas`, also where only some of the shifts are measured.
        draw = trial.TARGET_SEED + 100 * task.seed + list(TITLED).index(title)
        shifted = unlabelled if shift is None else shift(graph, draw).replace(labels=None)
        family = None if shift is None else shift.family
        yield title, family or UNSHIFTED, graph, Target(shifted, test, draw, train, family)


def _natural_targets(task: Task, source: Graph, train: Indices) -> Iterator[Scored]:
    for pair, graph, nodes in destinations(task.pairs, source, train):
        hidden = graph.replace(labels=None)
        trained = train if pair.same_nodes else None
        target = Target(hidden, nodes, trial.TARGET_SEED + task.seed, trained)
        yield pair.title, pair.group, graph, target


def score(
    answers: dict[str, Prediction], logits: FloatArray, labels: Indices
) -> dict[str, dict[str, Any]]:
    """Return every answer's scores, and the oracle's, against the target's labels.

    Methods that change predictions are scored by their own. An infinite NLL is None. The noise
    floor is the ECE that a calibrated model with these confidences would have by chance.

    Examples
    --------
    >>> z, y = np.array([[0.0, 1.0], [2.0, 0.0]]), np.array([1, 1])
    >>> scores = score({"sure": Prediction(np.array([[0.0, 1.0], [1.0, 0.0]]))}, z, y)
    >>> scores["sure"]["accuracy"], scores["sure"]["nll"], scores["oracle-T"]["accuracy"]
    (0.5, None, 0.5)
    """
    oracle = Prediction(temperature.apply(logits, temperature.solve(logits, labels).temperature))
    scores: dict[str, dict[str, Any]] = {}
    for method, answer in (answers | {ORACLE: oracle}).items():
        p = answer.probabilities
        nll = metrics.nll(p, labels)
        scores[method] = dict.fromkeys(trial.SCORES) | {
            "method": method,
            "ece": metrics.ece(p, labels),
            "noise_floor": metrics.noise_floor(p),
            "classwise_ece": metrics.classwise_ece(p, labels),
            "nll": nll if math.isfinite(nll) else None,
            "brier": metrics.brier(p, labels),
            "accuracy": float((p.argmax(axis=1) == labels).mean()),
            "estimate": answer.accuracy,
            "verdict": answer.verdict,
            "nodes": int(labels.size),
        }
    return scores


def known(
    names: Sequence[str],
    models: Sequence[str],
    seeds: Sequence[int],
    compositions: int,
    shifts: tuple[str, ...],
    calibrators: tuple[str, ...],
) -> list[Task]:
    """Return a task for every graph, model and seed."""
    return [
        Task(name, model, seed, compositions, shifts, calibrators=calibrators)
        for name in names
        for model in models
        for seed in seeds
    ]


def natural(
    pairs: Sequence[Pair],
    models: Sequence[str],
    seeds: Sequence[int],
    compositions: int,
    calibrators: tuple[str, ...],
) -> list[Task]:
    """Return a task for every source of the pairs, model and seed."""
    return [
        Task(source, model, seed, compositions, pairs=tuple(own), calibrators=calibrators)
        for source, own in by_source(pairs).items()
        for model in models
        for seed in seeds
    ]


def in_cells_apart(tasks: Sequence[Task], names: Sequence[str]) -> list[Task]:
    """Return a task of slow calibrators next to every task; retrained ones for their model only.

    Examples
    --------
    >>> tasks = [Task("cora", "GCN", 1, 0), Task("cora", "SIGN", 1, 0)]
    >>> [task.title for task in in_cells_apart(tasks, ["GATS", "Tent"])]
    ['known-cora-GCN-1-GATS+Tent', 'known-cora-SIGN-1-GATS']
    """
    found = []
    for task in tasks:
        own = tuple(n for n in names if n not in RETRAINED or task.model == RETRAINED_MODEL)
        if own:
            found.append(replace(task, apart=own, calibrators=()))
    return found


def balanced(tasks: Sequence[Task]) -> list[Task]:
    """Return the tasks in an order whose every beginning is spread over sources and models.

    Seed by seed; within a seed, every source comes once, with another model than its neighbours,
    before any comes again.

    Examples
    --------
    >>> tasks = known("ab", ["SIGN", "GCN"], [1], 0, (), ())
    >>> [(task.source, task.model) for task in balanced(tasks)]
    [('a', 'SIGN'), ('b', 'GCN'), ('a', 'GCN'), ('b', 'SIGN')]
    """
    sources = list(dict.fromkeys((task.setting, task.source) for task in tasks))
    models = list(dict.fromkeys(task.model for task in tasks))

    def place(task: Task) -> tuple[int, int, int]:
        source = sources.index((task.setting, task.source))
        return task.seed, (models.index(task.model) - source) % len(models), source

    return sorted(tasks, key=place)
