"""Simulated labelling sessions on natural shifts: do intervals hold, and how many labels they take.

Run as a program, ``python -m graphtemper_research.trials.label_sessions [sessions per pair]``, it
prints a table over the pairs of all families that are present. Labels of a target answer the
session's questions and score it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

import numpy as np

from graphtemper import LabelSession, Recalibration, SourceCard, recalibrate
from graphtemper._core.checks import FloatArray
from graphtemper.recalibration.sequential import WAGER, fortunes
from graphtemper.recalibration.verdict import labels_needed
from graphtemper_research.graphs.datasets import load_any as load_graph
from graphtemper_research.trials import graph_names
from graphtemper_research.trials.natural_environments import sources
from graphtemper_research.trials.natural_families import FAMILIES, PAIRS_ONLY, Family, scored_nodes
from graphtemper_research.trials.trial import MODELS, TARGET_SEED, Indices, halves

GOAL, APART, BATCH, LONGEST = 0.05, 0.1, 10, 240
MOST_TARGETS, FEWEST_NODES = 4, 100


def session_facts(result: Recalibration, labels: Indices, seed: int) -> dict[str, float]:
    """Return what one session of each kind gave on a target whose labels (N,) are known.

    ``held`` and ``share`` are those of a width: whether the interval held at the stop, and the
    labels over those of a fixed plan. ``right`` and ``labels`` are those of a gate at a distance of
    `APART`, and ``always`` says whether the interval of any moment held at all of `LONGEST`.
    """
    nodes = result.nodes
    truth = float((result.predictions == labels[nodes]).mean())
    width = _finished(LabelSession(result, goal=GOAL, seed=seed), labels)
    accuracy, plan = width.accuracy, labels_needed(0.5, GOAL, nodes.size)
    found = {
        "held": float(accuracy.low - 1e-9 <= truth <= accuracy.high + 1e-9),
        "share": width.num_labels / plan,
    }
    gate = truth + APART * (1 if seed % 2 and truth + APART < 1.0 else -1)
    if 0.0 < gate < 1.0:
        decided = _finished(LabelSession(result, at_least=gate, seed=seed), labels)
        found["right"] = float((decided.decision == "above") == (truth >= gate))
        found["labels"] = float(decided.num_labels)
    whole = LabelSession(result, goal=GOAL, seed=seed)
    whole.add({int(node): int(labels[node]) for node in whole.next(LONGEST)})
    found["always"] = float(fortunes(*whole._run, np.array([truth])).max() < WAGER)
    return found


def _finished(session: LabelSession, labels: Indices) -> LabelSession:
    while not session.done:
        session.add({int(node): int(labels[node]) for node in session.next(BATCH)})
    return session


def targets(family: Family, seed: int = 1) -> Iterator[tuple[Recalibration, Indices]]:
    """Yield the answer about every target of a family, without labels, and its labels."""
    here, _ = graph_names.present(family.graphs)
    for source in sources(here) if len(here) > 1 else []:
        home = load_graph(source)
        train, val = halves(home, seed)
        model = MODELS["SIGN"](seed).fit(home, train)
        card = SourceCard.build(model, home, val, seed=seed, compositions=0, progress=False)
        others = [name for name in here if name != source]
        chosen = np.unique(np.linspace(0, len(others) - 1, MOST_TARGETS).round().astype(int))
        for name in (others[k] for k in chosen):
            away = load_graph(name)
            nodes = scored_nodes(away, name, train if family.same_nodes else train[:0], seed)
            assert away.labels is not None
            if nodes.size >= FEWEST_NODES:
                hidden = away.replace(labels=None)
                answer = recalibrate(model, hidden, card, nodes, seed=TARGET_SEED + seed)
                yield answer, away.labels


def table(rows: list[dict[str, float]]) -> dict[str, float]:
    """Return the means of shares, and the medians of counts."""

    def column(name: str) -> FloatArray:
        return np.array([row[name] for row in rows if name in row])

    means = {name: float(column(name).mean()) for name in ("held", "right", "always")}
    return means | {name: float(np.median(column(name))) for name in ("share", "labels")}


if __name__ == "__main__":
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 4
    every: list[dict[str, float]] = []
    for family in (*FAMILIES, *PAIRS_ONLY):
        rows = [
            session_facts(result, labels, seed)
            for result, labels in targets(family)
            for seed in range(count)
        ]
        if rows:
            print(family.name, len(rows), {k: round(v, 3) for k, v in table(rows).items()})
        every += rows
    print("all", len(every), {k: round(v, 3) for k, v in table(every).items()})
