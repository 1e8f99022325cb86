"""Pairs of a source and a target that differ by nature: countries, elections, years."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import permutations, product
from typing import Any

import numpy as np

from graphtemper import Graph, errors
from graphtemper_research.graphs.datasets import load_any as load_graph
from graphtemper_research.harness.cells import Case, Show
from graphtemper_research.harness.frame import Row, Rows
from graphtemper_research.harness.runner import Request, Selection
from graphtemper_research.trials import graph_names
from graphtemper_research.trials.cases import models_of
from graphtemper_research.trials.trial import (
    MODELS,
    TARGET_SEED,
    Answer,
    Indices,
    Source,
    halves,
    score,
)

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

    @property
    def title(self) -> str:
        """The name of the target in a table.

        Examples
        --------
        >>> Pair("twitch", "twitch_de", "twitch_fr").title, Pair("time", "pubmed", "pubmed").title
        ('twitch_fr', 'pubmed, later')
        >>> Pair("bugs", "bugs_jruby_1.1", "bugs_jruby_1.4.0").title
        'bugs_jruby_1.4.0'
        """
        return graph_names.short(self.target) + (", later" if self.in_time else "")


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

# Answers on nodes of a target, from a source and a seed, by name of the method.
AnswerPair = Callable[[Source, Graph, Indices, int], dict[str, Answer]]


def pair_cases(
    answer: AnswerPair, schema: str, pairs: Sequence[Pair] = PAIRS
) -> Callable[[Request], Selection]:
    """Return the function that gives a case for every model, source and split of a request.

    The names of the request are groups; pairs with a graph that is missing are left out.
    """

    def cases(request: Request) -> Selection:
        models = models_of(request)
        here, missing = choose(pairs, request.names, quick=request.quick)
        found, size = [], request.compositions
        for model, own, seed in product(models, by_source(here).values(), request.splits()):
            name = graph_names.short(own[0].source)
            head: dict[str, Any] = {"schema": schema, "group": own[0].group, "source": name}
            head |= {"model": model, "seed": seed, "compositions": size}
            head |= {"content": graph_names.content(own[0].source, *(pair.target for pair in own))}
            work = partial(measure, answer, own, model, seed, size)
            found.append(Case(f"{name}-{model}-{seed}", head, work))
        return found, missing

    return cases


def measure(
    answer: AnswerPair,
    pairs: Sequence[Pair],
    model: str,
    seed: int,
    compositions: int,
    progress: Show | None = None,
) -> Rows:
    """Return one row per target and method for the pairs of one source."""
    graph, home, train, val = at_home(pairs[0], seed)
    source = Source.prepare(
        MODELS[model](seed), home, train, val, seed, compositions, progress=progress
    )
    rows: Rows = []
    for pair, target, nodes in destinations(pairs, graph, train):
        assert target.labels is not None
        answers = answer(source, target, nodes, TARGET_SEED + seed)
        facts = {"target": pair.title, "card_nodes": source.num_nodes}
        scores = score(source.logits(target, nodes), target.labels[nodes], answers)
        rows += [facts | row for row in scores]
    return rows


def by_source(pairs: Sequence[Pair]) -> dict[str, list[Pair]]:
    """Return the pairs by their source.

    Examples
    --------
    >>> list(by_source([Pair("a", "x", "y"), Pair("a", "y", "x"), Pair("a", "x", "z")]))
    ['x', 'y']
    """
    sources: dict[str, list[Pair]] = {}
    for pair in pairs:
        sources.setdefault(pair.source, []).append(pair)
    return sources


def choose(
    pairs: Sequence[Pair], groups: Sequence[str] | None, *, quick: bool = False
) -> tuple[list[Pair], list[str]]:
    """Return the pairs of some groups (default all) that are here, and the graphs that are not."""
    known = list(dict.fromkeys(pair.group for pair in pairs))
    unknown = [name for name in groups or () if name not in known]
    if unknown:
        raise errors.choice(f"unknown group {unknown[0]!r}; choose from {', '.join(known)}.")
    if groups is None and quick:
        groups = [name for name in QUICK_GROUPS if name in known] or known
    here, missing = present([pair for pair in pairs if groups is None or pair.group in groups])
    if not here:
        raise errors.empty("no pair of graphs is here; `graphtemper data list` shows what is.")
    return here, missing


def present(pairs: Sequence[Pair]) -> tuple[list[Pair], list[str]]:
    """Return the pairs whose graphs are on this machine, and the names of the missing graphs.

    Examples
    --------
    >>> present([Pair("twitch", "nowhere/de.npz", "nowhere/fr.npz")])
    ([], ['nowhere/de.npz', 'nowhere/fr.npz'])
    """
    names = list(dict.fromkeys(name for pair in pairs for name in (pair.source, pair.target)))
    here, missing = graph_names.present(names)
    return [pair for pair in pairs if {pair.source, pair.target} <= set(here)], missing


def at_home(pair: Pair, seed: int) -> tuple[Graph, Graph, Indices, Indices]:
    """Return the source's graph, its labelled part, and the nodes for training and card."""
    graph = load_graph(pair.source)
    home = early(graph) if pair.in_time else graph
    return graph, home, *halves(home, seed)


def destinations(
    pairs: Sequence[Pair], source: Graph, train: Indices
) -> Iterator[tuple[Pair, Graph, Indices]]:
    """Yield every pair's target and the nodes to score, with one graph in memory at a time."""
    for pair in pairs:
        if pair.in_time:
            yield pair, source, later(source)
        else:
            target = load_graph(pair.target)
            trained = train if pair.same_nodes else train[:0]
            yield pair, target, np.setdiff1d(target.labelled, trained)


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
        raise errors.empty(f"the graph {graph.name!r} has no order in time.")
    return graph.time


def _median(graph: Graph) -> float:
    time = _times(graph)
    return float(np.median(time[time != 0]))  # 0 is an unknown time


def short_name(row: Row) -> str:
    """Return a pair by what distinguishes the graphs of its group.

    Examples
    --------
    >>> short_name({"source": "twitch_de", "target": "twitch_fr"})
    'de->fr'
    """
    names = []
    for name in (row["source"], row["target"]):
        short = "later" if name.endswith(", later") else name.removesuffix("_years")
        for prefix in ("twitch_", "airport_", "county_"):
            short = short.removeprefix(prefix)
        names.append(short)
    return "->".join(names)
