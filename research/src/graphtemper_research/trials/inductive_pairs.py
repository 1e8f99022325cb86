"""How much of the gap between a source's card and another graph its training nodes explain.

For natural families (`graphtemper_research.trials.natural_families`): a model is trained on half of
a source's nodes, and accuracy A and the best temperature T are measured at the other half in three
of the ways of `graphtemper_research.trials.inductive_bias` (``plain``, ``cut``, ``swapped``), and
as the mean over the other environments of the family but the target (``elsewhere``). Each is
compared with the target's own A and T, and its T is scored by the target's ECE.

A family is the unit: numbers are means over its pairs, and errors are over families. Run
``python -m graphtemper_research.trials.inductive_pairs MODEL FAMILY ...`` with SIGN or GCN. With
``cards`` before the model, cards are built in the first three ways and targets recalibrated with
each; ``known`` is then a family of block models, whose targets are new draws under known shifts.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence

import numpy as np

from graphtemper import SourceCard, csbm, recalibrate, shifts
from graphtemper._core.checks import FloatArray
from graphtemper.graph.graph import Graph
from graphtemper.models.predictor import Predictor
from graphtemper_research.graphs.datasets import load_any as load_graph
from graphtemper_research.trials.inductive_bias import Rows, ece_at, scores, swapped
from graphtemper_research.trials.natural_environments import sources
from graphtemper_research.trials.natural_families import FAMILIES, Family, scored_nodes
from graphtemper_research.trials.trial import MODELS, halves

WAYS = ("plain", "cut", "swapped", "elsewhere")
KNOWN = "known"
"""The family of block models under known shifts."""


def pairs(
    model: str, family: Family, graphs: dict[str, Graph], seed: int = 1
) -> Iterator[dict[str, FloatArray]]:
    """Yield for every pair and way: A and log T minus the target's, and the target's ECE."""
    for name in sources(family.graphs):
        home = graphs[name]
        train, others = halves(home, seed)
        fitted = MODELS[model](seed).fit(home, train)
        known = at_home(fitted, home, train, others, seed)
        trained = train if family.same_nodes else train[:0]
        away = {
            other: scored_nodes(graphs[other], other, trained, seed)
            for other in family.graphs
            if other != name
        }
        there = {other: scores(fitted, graphs[other], nodes) for other, nodes in away.items()}
        for target, nodes in away.items():
            rest = [found for other, found in there.items() if other != target]
            ways = known | ({"elsewhere": np.mean(rest, axis=0)} if rest else {})
            yield {
                way: np.array(
                    [
                        *np.subtract(found, there[target]),
                        ece_at(fitted, graphs[target], nodes, found[1]),
                    ]
                )
                for way, found in ways.items()
            }


def at_home(
    model: Predictor, graph: Graph, train: Rows, others: Rows, seed: int
) -> dict[str, FloatArray]:
    """Return accuracy and log T at nodes that were not trained on, measured in three ways."""
    left = np.setdiff1d(np.arange(graph.num_nodes), train)
    rng = np.random.default_rng(seed)
    found = {
        "plain": scores(model, graph, others),
        "cut": scores(model, graph.subgraph(left), np.searchsorted(left, others)),
        "swapped": scores(model, swapped(graph, train, others, rng), others),
    }
    return {way: np.array(numbers) for way, numbers in found.items()}


def summary(by_family: Sequence[dict[str, FloatArray]]) -> dict[str, dict[str, float]]:
    """Return for each way what it leaves and removes of the gap, as means over families.

    ``by_family`` has for each way one row per pair: the numbers of `pairs`. ``accuracy`` is the
    mean gap, ``ece`` the mean ECE; ``accuracy_removed`` and ``log_t_removed`` are shares of the
    mean size of the gaps with ``plain`` (a best temperature may be huge, so a mean of log T over
    families would be that of one of them). ``better`` is how much lower the ECE is than with
    ``plain``, and ``error`` the standard error of that over families.
    """
    rows = {}
    for way in WAYS:
        items = [item for item in by_family if way in item]
        removed = np.mean([1.0 - _sizes(item[way]) / _sizes(item["plain"]) for item in items], 0)
        better = np.array([(item["plain"] - item[way])[:, 2].mean() for item in items])
        error = better.std(ddof=1) / np.sqrt(len(items)) if len(items) > 1 else np.nan
        rows[way] = {
            "accuracy": float(np.mean([item[way][:, 0].mean() for item in items])),
            "accuracy_removed": float(removed[0]),
            "log_t_removed": float(removed[1]),
            "ece": float(np.mean([item[way][:, 2].mean() for item in items])),
            "better": float(better.mean()),
            "error": float(error),
        }
    return rows


def _sizes(gaps: FloatArray) -> FloatArray:
    """Return the mean sizes of the gaps of accuracy and log T."""
    return np.asarray(np.abs(gaps[:, :2]).mean(axis=0))


def answers(
    model: str, family: str, graphs: dict[str, Graph], names: Sequence[str], seed: int = 1
) -> Iterator[FloatArray]:
    """Yield for every pair the target's ECE at the source temperature and with three cards.

    They are of the graph as it is, without its training nodes, and with their features swapped.
    """
    known = {item.name: item for item in FAMILIES}
    same_nodes = family in known and known[family].same_nodes
    for name in names:
        home = graphs[name]
        train, others = halves(home, seed)
        left = np.setdiff1d(np.arange(home.num_nodes), train)
        fitted = MODELS[model](seed).fit(home, train)
        other = swapped(home, train, others, np.random.default_rng(seed))
        cards = [
            SourceCard.build(fitted, graph, nodes, progress=False)
            for graph, nodes in (
                (home, others),
                (home.subgraph(left), np.searchsorted(left, others)),
                (other, others),
            )
        ]
        for away, target in graphs.items():
            if away == name:
                continue
            nodes = scored_nodes(target, away, train if same_nodes else train[:0], seed)
            found = (recalibrate(fitted, target, card, nodes).temperature for card in cards)
            values = (cards[0].temperature, *found)
            yield np.array([ece_at(fitted, target, nodes, float(np.log(t))) for t in values])


def known_shifts() -> dict[str, Graph]:
    """Return a block model as home, and new draws of it under known shifts."""
    changes = {
        "none": shifts.noise(0.0),
        "noise": shifts.noise(0.7),
        "mask": shifts.mask(0.5),
        "rewire": shifts.rewire(0.3),
        "drop": shifts.drop(0.5),
    }
    drawn = [
        csbm.sample(1500, 6, 0.75, 0.7, num_features=100, seed=seed) for seed in range(len(changes))
    ]
    home = csbm.sample(1500, 6, 0.75, 0.7, num_features=100, seed=100)
    targets = {
        name: change(graph, 1) for (name, change), graph in zip(changes.items(), drawn, strict=True)
    }
    return {"home": home} | targets


def compare_cards(model: str, chosen: Sequence[str]) -> None:
    """Print the mean ECE of each family at the source temperature and with the cards."""
    for name in chosen:
        if name == KNOWN:
            graphs, names = known_shifts(), ["home"]
        else:
            (family,) = (item for item in FAMILIES if item.name == name)
            graphs = {item: load_graph(item) for item in family.graphs}
            names = sources(family.graphs)
        found = np.mean(list(answers(model, name, graphs, names)), axis=0)
        row = dict(zip(("source_t", *WAYS[:3]), found.round(4).tolist(), strict=True))
        print(json.dumps({"model": model, "family": name, **row}), flush=True)


def main(arguments: list[str]) -> None:
    """Print the numbers of each family, and their means, as lines of JSON."""
    if arguments[0] == "cards":
        compare_cards(arguments[1], arguments[2:])
        return
    model, chosen = arguments[0], arguments[1:]
    measured = []
    for family in FAMILIES:
        if chosen and family.name not in chosen:
            continue
        graphs = {name: load_graph(name) for name in family.graphs}
        found = list(pairs(model, family, graphs))
        ways = {way: np.array([item[way] for item in found]) for way in found[0]}
        measured.append(ways)
        _print({"model": model, "family": family.name, "pairs": len(found)}, summary([ways]))
    _print({"model": model, "families": len(measured)}, summary(measured))


def _print(about: dict[str, str | int], rows: dict[str, dict[str, float]]) -> None:
    for way, row in rows.items():
        rounded = {key: round(value, 4) for key, value in row.items() if np.isfinite(value)}
        print(json.dumps({**about, "way": way, **rounded}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
