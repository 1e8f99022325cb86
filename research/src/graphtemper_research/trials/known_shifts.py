"""Sixteen shifts of real graphs, with and without their family in the card.

Half of the labelled nodes train a model, a quarter makes the source card, a quarter is scored
under shifts whose seeds the atlas never used. Each (graph, model, seed) is one cell on disk.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from graphtemper import shifts, temperature
from graphtemper._core.arrays import FloatArray
from graphtemper.card import atlas
from graphtemper.errors import InputError
from graphtemper.graph import datasets
from graphtemper.graph.graph import Graph
from graphtemper.shifts import Shift
from graphtemper_research.harness import cells
from graphtemper_research.harness.cells import Cell, Progress, Rows
from graphtemper_research.harness.outcome import Outcome
from graphtemper_research.trials import graph_names as features
from graphtemper_research.trials import summary
from graphtemper_research.trials.summary import KNOWN, LABELLED, METHODS, UNKNOWN
from graphtemper_research.trials.trial import (
    ATLAS,
    MODELS,
    QUICK_COMPOSITIONS,
    TARGET_SEED,
    Answer,
    Indices,
    Source,
    check_request,
    hide_labels,
    score,
    split,
)

SCHEMA = "graphtemper.atlas_cell/3"
FEWEST_NODES = 1000
SEEDS = 3
QUICK_GRAPHS = ("county_2012", "cora")

SHIFTS: tuple[Shift | None, ...] = (
    None,
    *(shifts.noise(level) for level in (0.75, 1.0, 2.5)),
    *(shifts.mask(level) for level in (0.5, 0.9)),
    *(shifts.rewire(level) for level in (0.25, 0.5, 0.75)),
    *(shifts.drop(level) for level in (0.5, 0.9)),
    shifts.add(1.5),
    shifts.shuffle(0.5),
    shifts.heterogeneous(1.5),
    *(shifts.scale(level) for level in (0.4, 2.5)),
)


def title(shift: Shift | None) -> str:
    """Return what a row calls a shift.

    Examples
    --------
    >>> title(None), title(shifts.noise(0.75))
    ('none', 'noise(0.75)')
    """
    return "none" if shift is None else repr(shift)


def graphs_here() -> list[str]:
    """Return the graphs of the catalogue that are large enough and on this machine."""
    large = [
        name
        for name, entry in datasets.CATALOGUE.items()
        if entry.collection == "benchmark" and entry.nodes >= FEWEST_NODES
    ]
    return [name for name in large if datasets.find(name) is not None]


def run(
    out: Path,
    graphs: Sequence[str] | None = None,
    models: Sequence[str] = ("SIGN",),
    seeds: int = SEEDS,
    *,
    svd: bool = False,
    quick: bool = False,
    progress: Progress | None = None,
) -> Outcome:
    """Measure every cell that is not in ``out/cells`` yet and summarise those that were asked for.

    Parameters
    ----------
    out
        Folder for the cells; the caller writes the outcome.
    graphs
        Names of the catalogue or paths; default every large graph that is here. A name that ends
        in ``+svd64`` asks for the graph's embedding.
    models
        Names from `MODELS`.
    seeds
        How many: 1, 2, ...
    svd
        Also measure the embeddings of the graphs that have sparse features.
    quick
        One seed, two small graphs and fewer compositions: a smoke test, not a result.
    progress
        Called with the cell's name, environments done and environments in all.
    """
    check_request(models, seeds)
    here = graphs_here()
    if graphs is None and quick:
        graphs = [name for name in QUICK_GRAPHS if name in here] or here[:2]
    names = here if graphs is None else list(graphs)
    if not names:
        raise InputError("no graph to measure; `graphtemper data list` shows what is here.")
    names = features.with_embeddings(names) if svd else names
    compositions = QUICK_COMPOSITIONS if quick else atlas.COMPOSITIONS
    found = [
        _cell(out / "cells", name, model, seed, compositions, progress)
        for name in names
        for model in models
        for seed in range(1, (1 if quick else seeds) + 1)
    ]
    return summary.outcome(found)


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
    expected = [{"shift": title(s), "method": method} for s in SHIFTS for method in METHODS]

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
    """Return one row per shift and method for one split of one graph."""
    if graph.labelled.size < FEWEST_NODES:
        raise InputError(
            f"the graph {graph.name!r} has {graph.labelled.size} labelled nodes; the evaluation "
            f"needs at least {FEWEST_NODES}."
        )
    assert graph.labels is not None
    train, val, test = split(graph, seed)
    source = Source.prepare(
        MODELS[model](seed),
        hide_labels(graph, test),
        train,
        val,
        seed,
        compositions,
        progress=progress,
    )
    families = dict.fromkeys(shift.family for shift in SHIFTS if shift is not None)
    thinner = {family: source.card.without(family) for family in families}
    unlabelled = graph.replace(labels=None)
    rows = []
    for index, shift in enumerate(SHIFTS):
        draw = TARGET_SEED + 100 * seed + index
        target = unlabelled if shift is None else shift(unlabelled, draw)
        answers = source.answers(target, test, draw)
        answers[KNOWN] = answers.pop(ATLAS)
        answers[UNKNOWN] = (
            answers[KNOWN]
            if shift is None
            else source.ask(target, test, draw, thinner[shift.family])
        )
        answers[LABELLED] = informed(source.logits(target, val), graph.labels[val])
        named = {"shift": title(shift), "card_nodes": source.num_nodes}
        scored = score(source.logits(target, test), graph.labels[test], answers)
        rows += [named | row for row in scored]
    return rows


def informed(logits: FloatArray, labels: Indices) -> Answer:
    """Return what labelled nodes of the target say about it: a reference, not a method.

    Examples
    --------
    >>> import numpy as np
    >>> informed(np.array([[0.0, 1.0]] * 4), np.array([1, 1, 1, 0])).accuracy
    0.75
    """
    right = float((logits.argmax(axis=1) == labels).mean())
    return Answer(temperature.solve(logits, labels).temperature, right)
