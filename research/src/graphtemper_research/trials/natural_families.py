"""Families of natural graphs: environments with the same columns and classes.

They are a benchmark that any method can be run on: `task` gives the graphs, the nodes to train on,
the nodes to calibrate on and the nodes that are scored, by seed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from graphtemper import errors
from graphtemper._core.reproducible import stream
from graphtemper.graph.graph import Graph
from graphtemper_research.graphs.datasets import load_any as load_graph
from graphtemper_research.trials.graph_names import short
from graphtemper_research.trials.pairs import AIRPORTS, TWITCH
from graphtemper_research.trials.trial import Indices, halves

MOST_NODES = 3000
"""More nodes of an environment than this are sampled."""


@dataclass(frozen=True)
class Family:
    """Graphs of one kind in several environments, by name or path.

    ``same_nodes`` says that node i is the same thing in all of them, so that nodes the model was
    trained on are neither scored nor learned from. ``series`` are environments in order of time.
    """

    name: str
    graphs: tuple[str, ...]
    same_nodes: bool = False
    series: tuple[tuple[str, ...], ...] = ()

    def history(self, source: str, target: str) -> tuple[str, ...]:
        """Return the environments before a target in its series, without the source.

        It is empty unless the source is earlier than the target.

        Examples
        --------
        >>> family = Family("f", ("a", "b", "c", "d"), series=(("a", "b", "c", "d"),))
        >>> family.history("b", "d"), family.history("d", "b"), family.history("a", "b")
        (('a', 'c'), (), ())
        """
        for names in self.series:
            if source in names and target in names and names.index(source) < names.index(target):
                return tuple(name for name in names[: names.index(target)] if name != source)
        return ()


def _named(prefix: str, names: str) -> tuple[str, ...]:
    return tuple(f"{prefix}_{name}" for name in names.split())


_MONTHS = _named(
    "covid_us",
    "2020_05 2020_07 2020_08 2020_09 2020_10 2020_11 2020_12 2021_01 2021_03 2021_04 2021_05",
)
_ACTIVEMQ = _named("bugs_activemq", "5.0.0 5.1.0 5.2.0 5.3.0 5.8.0")
_CAMEL = _named("bugs_camel", "1.4.0 2.9.0 2.10.0 2.11.0")
_OTHER_BUGS = _named(
    "bugs",
    "groovy_1.5.7 groovy_1.6b2 hive_0.9.0 jruby_1.1 jruby_1.4.0 lucene_2.3.0 lucene_2.9.0",
)
FAMILIES = (
    Family("airports", AIRPORTS),
    Family("villages", _named("villages", "1 2 3 4")),
    Family("covid_us", _MONTHS, same_nodes=True, series=(_MONTHS,)),
    Family("bugs", (*_ACTIVEMQ, *_CAMEL, *_OTHER_BUGS), series=(_ACTIVEMQ, _CAMEL)),
    Family("twitch", TWITCH),
    Family("ud", _named("ud", "ar cs de en es fi fr ru tr zh")),
)
# Families of two, which leave no third environment to learn from.
PAIRS_ONLY = (
    Family("county", _named("county", "2012 2016"), same_nodes=True),
    Family("bitcoin", _named("bitcoin", "otc alpha")),
    Family("houses", _named("houses_california", "north south")),
)


@dataclass(frozen=True, eq=False)
class Task:
    """One task of the benchmark: train and calibrate at home, answer about a target.

    Attributes
    ----------
    source, train, card
        The labelled source, the half of its labelled nodes to train on and the other half.
    target, scored
        The target with its labels, and the nodes that are scored. A method may read no label of it.
    """

    source: Graph
    train: Indices
    card: Indices
    target: Graph
    scored: Indices


def task(family: str, source: str, target: str, seed: int = 1) -> Task:
    """Load a task of the benchmark by the names of its family and of two of its graphs."""
    known = {item.name: item for item in (*FAMILIES, *PAIRS_ONLY)}
    if family not in known:
        raise errors.choice(f"unknown family {family!r}; choose from {', '.join(known)}.")
    for name in (source, target):
        if name not in known[family].graphs:
            raise errors.choice(
                f"{name!r} is not in the family {family!r}; choose from "
                f"{', '.join(known[family].graphs)}."
            )
    home, away = load_graph(source), load_graph(target)
    train, card = halves(home, seed)
    trained = train if known[family].same_nodes else train[:0]
    return Task(home, train, card, away, scored_nodes(away, target, trained, seed))


def scored_nodes(graph: Graph, name: str, trained: Indices, seed: int) -> Indices:
    """Return labelled nodes that were not trained on: all, or a sample of `MOST_NODES`."""
    nodes = np.setdiff1d(graph.labelled, trained)
    if nodes.size <= MOST_NODES:
        return nodes
    rng = stream(seed, f"natural nodes {short(name)}")
    return np.sort(rng.choice(nodes, MOST_NODES, replace=False))
