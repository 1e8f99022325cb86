"""Natural shifts: other countries, another election, later years. Nobody drew these.

Half of the source's labelled nodes train a model and half make the card. Across graphs every
labelled node of the target is scored; where source and target are the same counties, those that
were not trained on. In time the source is the induced subgraph of the nodes up to the median known
time, and the target is the whole graph, scored on the later nodes. Each (source, model, seed) is
one cell on disk.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np

from graphtemper.card import atlas
from graphtemper.cli.arguments import load_graph
from graphtemper.errors import InputError
from graphtemper.graph.graph import Graph
from graphtemper_research.harness import cells
from graphtemper_research.harness.cells import Cell, Progress, Rows
from graphtemper_research.harness.outcome import Outcome
from graphtemper_research.trials import graph_names as features
from graphtemper_research.trials import natural_summary
from graphtemper_research.trials.trial import (
    METHODS,
    MODELS,
    QUICK_COMPOSITIONS,
    TARGET_SEED,
    Indices,
    Source,
    check_request,
    halves,
    score,
)

SCHEMA = "graphtemper.natural_cell/1"
QUICK_GROUPS = ("airports", "counties")


@dataclass(frozen=True)
class Pair:
    """A source and a target, by name or path; one graph that is both is split in time.

    ``same_nodes`` says that node i is the same thing in both graphs, so that nodes the model was
    trained on are not scored.
    """

    group: str
    source: str
    target: str
    same_nodes: bool = False

    @property
    def in_time(self) -> bool:
        """Whether source and target are the early and the late part of one graph."""
        return self.source == self.target


def _across(group: str, names: Sequence[str]) -> tuple[Pair, ...]:
    return tuple(Pair(group, *pair) for pair in permutations(names, 2))


TWITCH = tuple(f"twitch_{name}" for name in ("de", "engb", "es", "fr", "ptbr", "ru", "tw"))
AIRPORTS = ("airport_usa", "airport_brazil", "airport_europe")
PAIRS = (
    *_across("twitch", TWITCH),
    *_across("airports", AIRPORTS),
    Pair("counties", "county_2012", "county_2016", same_nodes=True),
    Pair("time", "pubmed", "pubmed"),
    Pair("time", "imdb_years", "imdb_years"),
)
GROUPS = tuple(dict.fromkeys(pair.group for pair in PAIRS))


def run(
    out: Path,
    groups: Sequence[str] | None = None,
    models: Sequence[str] = ("SIGN",),
    seeds: int = 1,
    *,
    quick: bool = False,
    pairs: Sequence[Pair] = PAIRS,
    progress: Progress | None = None,
) -> Outcome:
    """Measure every source that is not in ``out/cells`` yet and summarise all pairs asked for.

    Parameters
    ----------
    out
        Folder for the cells; the caller writes the outcome.
    groups
        Some of `GROUPS`; default all.
    models, seeds
        Names from `MODELS`; how many random halves of the sources: 1, 2, ...
    quick
        Airports and counties and fewer compositions: a smoke test, not a result.
    pairs
        Sources and targets; pairs with a graph that is missing are left out.
    progress
        Called with the cell's name, environments done and environments in all.
    """
    check_request(models, seeds)
    here, missing = wanted(pairs, groups, quick=quick)
    compositions = QUICK_COMPOSITIONS if quick else atlas.COMPOSITIONS
    sources = dict.fromkeys(pair.source for pair in here)
    found = [
        _cell(
            out / "cells",
            [pair for pair in here if pair.source == source],
            model,
            seed,
            compositions,
            progress,
        )
        for model in models
        for source in sources
        for seed in range(1, seeds + 1)
    ]
    return natural_summary.outcome(found, missing)


def wanted(
    pairs: Sequence[Pair], groups: Sequence[str] | None, *, quick: bool
) -> tuple[list[Pair], list[str]]:
    """Return the pairs of some groups (default all) that are here, and the graphs that are not."""
    known = list(dict.fromkeys(pair.group for pair in pairs))
    unknown = [name for name in groups or () if name not in known]
    if unknown:
        raise InputError(f"unknown group {unknown[0]!r}; choose from {', '.join(known)}.")
    if groups is None and quick:
        groups = [name for name in QUICK_GROUPS if name in known] or known
    here, missing = present([pair for pair in pairs if groups is None or pair.group in groups])
    if not here:
        raise InputError("no pair of graphs is here; `graphtemper data list` shows what is.")
    return here, missing


def present(pairs: Sequence[Pair]) -> tuple[list[Pair], list[str]]:
    """Return the pairs whose graphs are on this machine, and the names of those that are not.

    Examples
    --------
    >>> present([Pair("twitch", "nowhere/de.npz", "nowhere/fr.npz")])
    ([], ['nowhere/de.npz', 'nowhere/fr.npz'])
    """
    names = list(dict.fromkeys(name for pair in pairs for name in (pair.source, pair.target)))
    _, missing = features.present(names)
    here = [pair for pair in pairs if not {pair.source, pair.target} & set(missing)]
    return here, missing


def _cell(
    folder: Path,
    pairs: Sequence[Pair],
    model: str,
    seed: int,
    compositions: int,
    progress: Progress | None,
) -> Cell:
    about = head(SCHEMA, pairs, model, seed, compositions)
    expected = [{"target": title(pair), "method": method} for pair in pairs for method in METHODS]

    def measured(show: atlas.Progress | None) -> Rows:
        return measure(pairs, model, seed, compositions, progress=show)

    name = f"{about['source']}-{model}-{seed}"
    return cells.finish(folder, name, about, expected, measured, progress)


def head(
    schema: str, pairs: Sequence[Pair], model: str, seed: int, compositions: int
) -> dict[str, Any]:
    """Return what a cell of one source depends on."""
    return {
        "schema": schema,
        "group": pairs[0].group,
        "source": Path(pairs[0].source).stem,
        "model": model,
        "seed": seed,
        "compositions": compositions,
    }


def title(pair: Pair) -> str:
    """Return what a row calls a pair's target.

    Examples
    --------
    >>> title(Pair("twitch", "twitch_de", "twitch_fr")), title(Pair("time", "pubmed", "pubmed"))
    ('twitch_fr', 'pubmed, later')
    """
    return Path(pair.target).stem + (", later" if pair.in_time else "")


def measure(
    pairs: Sequence[Pair],
    model: str,
    seed: int,
    compositions: int = atlas.COMPOSITIONS,
    *,
    progress: atlas.Progress | None = None,
) -> Rows:
    """Return one row per target and method for the pairs of one source."""
    graph, home, train, val = at_home(pairs[0], seed)
    source = Source.prepare(
        MODELS[model](seed), home, train, val, seed, compositions, progress=progress
    )
    rows = []
    for pair, target, nodes in destinations(pairs, graph, train):
        assert target.labels is not None
        answers = source.answers(target, nodes, TARGET_SEED + seed)
        named = {"target": title(pair), "card_nodes": source.num_nodes}
        scored = score(source.logits(target, nodes), target.labels[nodes], answers)
        rows += [named | row for row in scored]
    return rows


def at_home(pair: Pair, seed: int) -> tuple[Graph, Graph, Indices, Indices]:
    """Return the source's graph, the part that is known, and the nodes for training and card."""
    graph = load_graph(pair.source)
    home = early(graph) if pair.in_time else graph
    return graph, home, *halves(home, seed)


def destinations(
    pairs: Sequence[Pair], source: Graph, train: Indices
) -> Iterator[tuple[Pair, Graph, Indices]]:
    """Yield every pair's target and the nodes to score, one graph in memory at a time."""
    for pair in pairs:
        if pair.in_time:
            yield pair, source, later(source)
        else:
            target = load_graph(pair.target)
            seen = train if pair.same_nodes else train[:0]
            yield pair, target, np.setdiff1d(target.labelled, seen)


def early(graph: Graph) -> Graph:
    """Return the induced subgraph of the nodes up to the median known time.

    Examples
    --------
    >>> g = Graph(features=[[1.0]] * 4, edges=[[0, 1], [1, 3]], time=[1990, 1980, 0, 2000])
    >>> early(g).num_nodes, early(g).edges.tolist(), early(g).time.tolist()
    (2, [[0, 1]], [1990, 1980])
    """
    time = _times(graph)
    return graph.subgraph((time != 0) & (time <= _median(graph)))


def later(graph: Graph) -> Indices:
    """Return the labelled nodes after the median known time.

    Examples
    --------
    >>> edges, time = [[0, 1], [1, 3]], [1990, 1980, 0, 2000]
    >>> later(Graph(features=[[1.0]] * 4, edges=edges, labels=[0, 1, 0, 1], time=time)).tolist()
    [3]
    """
    return np.intersect1d(np.flatnonzero(_times(graph) > _median(graph)), graph.labelled)


def _times(graph: Graph) -> Indices:
    if graph.time is None or not (graph.time != 0).any():
        raise InputError(f"the graph {graph.name!r} has no order in time.")
    return graph.time


def _median(graph: Graph) -> float:
    time = _times(graph)
    return float(np.median(time[time != 0]))  # 0 is an unknown time
