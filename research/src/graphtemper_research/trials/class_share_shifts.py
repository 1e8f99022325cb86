"""Changed class shares on real graphs: known shares, estimated ones, and what correcting does.

Half of the labelled nodes train a model, a quarter makes the source card, and of the last quarter
nodes are drawn so that their class shares are new while the graph stays: pure label shift. Controls
shift the graph as well, where a correction rests on an assumption that no longer holds. Each
(graph, model, seed) is one cell on disk.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from graphtemper import recalibrate, shifts
from graphtemper import temperature as temperatures
from graphtemper._core.arrays import FloatArray
from graphtemper._core.random_streams import stream
from graphtemper.card import atlas
from graphtemper.card.card import SourceCard
from graphtemper.card.class_profile import ClassProfile
from graphtemper.errors import GraphTemperWarning, InputError, NotIdentifiableError
from graphtemper.graph.graph import Graph
from graphtemper.recalibration.class_shares import adjust_logits, bbse, em, rlls
from graphtemper.recalibration.result import Recalibration
from graphtemper.shifts import Shift
from graphtemper_research.harness import cells
from graphtemper_research.harness.cells import Cell, Progress, Rows
from graphtemper_research.harness.outcome import Outcome
from graphtemper_research.trials import class_shares_summary
from graphtemper_research.trials import graph_names as features
from graphtemper_research.trials.cases import over_graphs
from graphtemper_research.trials.class_shares_summary import CORRECTED, ESTIMATORS, PLAIN
from graphtemper_research.trials.known_shifts import title
from graphtemper_research.trials.trial import (
    MODELS,
    TARGET_SEED,
    Answer,
    Indices,
    hide_labels,
    score,
    split,
)

SCHEMA = "graphtemper.class_shares_cell/1"
GRAPHS = (
    "cora",
    "citeseer",
    "pubmed",
    "minesweeper",
    "tolokers",
    "actor",
    "amazon_photo",
    "airport_usa",
    "county_2012",
    "imdb_years",
)
QUICK_GRAPHS = ("county_2012",)
STRENGTHS = (0.5, 1.0, 1.5, 2.0)
"""Standard deviation, over classes, of the logarithm by which shares are multiplied."""
DRAWS = 6
# A target that the largest classes cannot serve without leaving fewer nodes is drawn again.
FEWEST_TARGET_NODES = 60
CONTROLS: tuple[Shift, ...] = (
    shifts.noise(0.5),
    shifts.noise(1.0),
    shifts.mask(0.5),
    shifts.rewire(0.3),
    shifts.shuffle(0.3),
    shifts.scale(0.7),
)
_TRIES = 50


@dataclass(frozen=True)
class Case:
    """A target: a shift of the graph or none, and how far class shares move."""

    shift: Shift | None
    strength: float
    draw: int

    @property
    def name(self) -> dict[str, Any]:
        """What identifies its rows."""
        return {"shift": title(self.shift), "strength": self.strength, "draw": self.draw}


CASES: tuple[Case, ...] = (
    Case(None, 0.0, 0),
    *(Case(None, strength, draw) for strength in STRENGTHS for draw in range(DRAWS)),
    *(Case(control, strength, 0) for control in CONTROLS for strength in (0.0, 1.0)),
)


def run(
    out: Path,
    graphs: Sequence[str] | None = None,
    models: Sequence[str] = ("SIGN",),
    seeds: int = 1,
    *,
    quick: bool = False,
    progress: Progress | None = None,
) -> Outcome:
    """Measure every cell that is not in ``out/cells`` yet and summarise those that were asked for.

    Parameters
    ----------
    out
        Folder for the cells; the caller writes the outcome.
    graphs
        Names of the catalogue or paths; default `GRAPHS`, of which missing ones are left out.
    models, seeds
        Names from `MODELS`; how many splits: 1, 2, ...
    quick
        One graph and fewer compositions: a smoke test, not a result.
    progress
        Called with the cell's name, environments done and environments in all.
    """
    usual = QUICK_GRAPHS if quick else GRAPHS
    found, missing = over_graphs(
        _cell, out, graphs, usual, models, seeds, quick=quick, progress=progress
    )
    return class_shares_summary.outcome(found, missing)


def _cell(
    folder: Path, name: str, model: str, seed: int, compositions: int, progress: Progress | None
) -> Cell:
    graph = features.short(name)
    head = {
        "schema": SCHEMA,
        "graph": graph,
        "model": model,
        "seed": seed,
        "compositions": compositions,
    }
    expected = [case.name | {"method": method} for case in CASES for method in (PLAIN, CORRECTED)]

    def measured(show: atlas.Progress | None) -> Rows:
        return measure(features.load(name), model, seed, compositions, progress=show)

    return cells.finish(folder, f"{graph}-{model}-{seed}", head, expected, measured, progress)


def measure(
    graph: Graph,
    model: str,
    seed: int,
    compositions: int = atlas.COMPOSITIONS,
    *,
    progress: atlas.Progress | None = None,
) -> Rows:
    """Return two rows per case, without and with a correction, for one split of one graph."""
    assert graph.labels is not None
    train, val, test = split(graph, seed)
    known = hide_labels(graph, test)
    predictor = MODELS[model](seed).fit(known, train)
    card = SourceCard.build(
        predictor, known, val, seed=seed, compositions=compositions, progress=progress
    )
    profile = card.class_profile
    if profile is None:
        raise InputError(f"the model tells no classes of {graph.name!r} apart; nothing to measure.")
    unlabelled = graph.replace(labels=None)
    rows = []
    for index, case in enumerate(CASES):
        draw = TARGET_SEED + 1000 * seed + index
        target = unlabelled if case.shift is None else case.shift(unlabelled, draw)
        nodes = resampled(graph.labels, test, case.strength, draw)
        plain, corrected = (
            recalibrate(predictor, target, card, nodes, seed=draw, class_shares=wanted)
            for wanted in ("report", "estimate")
        )
        labels = graph.labels[plain.nodes]
        logits = np.asarray(predictor(target)[plain.nodes], dtype=np.float64)
        facts = case.name | _facts(profile, card.probe.temperature, logits, labels, corrected)
        for method, result in ((PLAIN, plain), (CORRECTED, corrected)):
            rows.append(facts | _scored(method, result, logits, labels))
    return rows


def resampled(labels: Indices, nodes: Indices, strength: float, seed: int) -> Indices:
    r"""Return some of the nodes, with class shares proportional to :math:`s_k e^{\lambda g_k}`.

    The :math:`g_k` are standard normal numbers. Without a strength, a random two thirds of them.

    Examples
    --------
    >>> labels = np.arange(600) % 3
    >>> kept = resampled(labels, np.arange(600), 1.0, 4)
    >>> bool(np.ptp(np.bincount(labels[kept]) / kept.size) > 0.1)
    True
    """
    rng = stream(seed, "class shares")
    if strength == 0.0:
        return np.sort(rng.permutation(nodes)[: max(2 * nodes.size // 3, 1)])
    counts = np.bincount(labels[nodes], minlength=int(labels.max()) + 1)
    least = min(FEWEST_TARGET_NODES, nodes.size // 4)
    for _ in range(_TRIES):
        wanted = counts * np.exp(strength * rng.standard_normal(counts.size))
        kept = shifts.resample_classes(labels, nodes, wanted, int(rng.integers(2**31)))
        if kept.size >= least:
            break
    return kept


def _facts(
    profile: ClassProfile,
    temperature: float,
    logits: FloatArray,
    labels: Indices,
    result: Recalibration,
) -> dict[str, Any]:
    """Return how far the shares moved, and the L1 error of every estimate of them."""
    classes = profile.shares.size
    true = np.bincount(labels, minlength=classes) / labels.size
    found: dict[str, FloatArray | None] = dict(
        zip(ESTIMATORS, _published(profile, logits / temperature), strict=False)
    )
    found["reported"] = result.class_shares
    # What is left if the shares are known and only the nodes' own classes are not.
    z = profile.calibrated(logits / temperature)
    posterior = temperatures.apply(adjust_logits(z, profile.shares, true, floor=1.0 / labels.size))
    found["known shares"] = posterior.mean(axis=0)
    errors = {
        f"l1 {name}": None if shares is None else float(np.abs(shares - true).sum())
        for name, shares in found.items()
    }
    moved = float(np.abs(true - profile.shares).sum())
    return {"moved": moved, "applied": result.logit_shift is not None} | errors


def _published(profile: ClassProfile, logits: FloatArray) -> tuple[FloatArray, ...]:
    """Return the shares of the predictions and by BBSE, RLLS and EM, as published."""
    size, classes = logits.shape
    predicted = np.bincount(logits.argmax(axis=1), minlength=classes) / size
    table, source = profile.confusion, profile.shares
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GraphTemperWarning)
        try:
            by_table = bbse(table, predicted)
        except NotIdentifiableError:
            by_table = source
        return (
            predicted,
            by_table,
            rlls(table, predicted, profile.num_nodes, size),
            em(temperatures.apply(logits), source),
        )


def _scored(
    method: str, result: Recalibration, logits: FloatArray, labels: Indices
) -> dict[str, Any]:
    shift = 0.0 if result.logit_shift is None else result.logit_shift
    return score(logits + shift, labels, {method: Answer.of(result)})[0]
