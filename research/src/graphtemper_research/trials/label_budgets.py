"""A few labels under natural shifts: what fifty or two hundred of them add to the atlas.

The pairs and the protocol are those of `natural`. On every target `suggest_labels` picks nodes,
their labels are handed over, and the answer is scored on all of the target's labelled nodes; the
same labels also fit a temperature alone. Every pick is drawn several times, because fifty labels
are a matter of luck. Each (source, model, seed) is one cell on disk.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from graphtemper import recalibrate, suggest_labels, temperature
from graphtemper.card import atlas
from graphtemper.graph.graph import Graph
from graphtemper_research.harness import cells
from graphtemper_research.harness.cells import Cell, Progress, Rows
from graphtemper_research.harness.outcome import Outcome
from graphtemper_research.trials import labels_summary
from graphtemper_research.trials import natural_shifts as natural
from graphtemper_research.trials.natural_shifts import PAIRS, Pair, title
from graphtemper_research.trials.trial import (
    ATLAS,
    MODELS,
    ORACLE,
    QUICK_COMPOSITIONS,
    SOURCE,
    TARGET_SEED,
    Answer,
    Indices,
    Source,
    check_request,
    score,
)

SCHEMA = "graphtemper.labels_cell/1"
BUDGETS = (50, 200)
DRAWS = 5


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

    The arguments are those of `natural.run`.
    """
    check_request(models, seeds)
    here, missing = natural.wanted(pairs, groups, quick=quick)
    compositions = QUICK_COMPOSITIONS if quick else atlas.COMPOSITIONS
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
        for source in dict.fromkeys(pair.source for pair in here)
        for seed in range(1, seeds + 1)
    ]
    return labels_summary.outcome(found, missing)


def _cell(
    folder: Path,
    pairs: Sequence[Pair],
    model: str,
    seed: int,
    compositions: int,
    progress: Progress | None,
) -> Cell:
    head = natural.head(SCHEMA, pairs, model, seed, compositions)
    names = (SOURCE, ATLAS, *drawn(), ORACLE)
    expected = [{"target": title(pair), "method": method} for pair in pairs for method in names]

    def measured(show: atlas.Progress | None) -> Rows:
        return measure(pairs, model, seed, compositions, progress=show)

    return cells.finish(
        folder, f"{head['source']}-{model}-{seed}", head, expected, measured, progress
    )


def drawn() -> list[str]:
    """Return the names of all answers with labels, in the order of the rows.

    Examples
    --------
    >>> drawn()[:2]
    ['50 labels, draw 1', '50 labels alone, draw 1']
    """
    return [
        name for count in BUDGETS for draw in range(1, DRAWS + 1) for name in _names(count, draw)
    ]


def _names(count: int, draw: int) -> tuple[str, str]:
    return f"{count} labels, draw {draw}", f"{count} labels alone, draw {draw}"


def measure(
    pairs: Sequence[Pair],
    model: str,
    seed: int,
    compositions: int = atlas.COMPOSITIONS,
    *,
    progress: atlas.Progress | None = None,
) -> Rows:
    """Return one row per target and answer for the pairs of one source."""
    graph, home, train, val = natural.at_home(pairs[0], seed)
    source = Source.prepare(
        MODELS[model](seed), home, train, val, seed, compositions, progress=progress
    )
    rows = []
    for pair, target, nodes in natural.destinations(pairs, graph, train):
        assert target.labels is not None
        found = answers(source, target, nodes, TARGET_SEED + seed)
        scored = score(source.logits(target, nodes), target.labels[nodes], found)
        rows += [{"target": title(pair)} | row for row in scored]
    return rows


def answers(source: Source, target: Graph, nodes: Indices, seed: int) -> dict[str, Answer]:
    """Return the source temperature, the atlas, and both uses of every draw of labels.

    Of a target with few nodes at most half is labelled.
    """
    assert target.labels is not None
    hidden = target.replace(labels=None)
    logits = source.logits(target, nodes)
    plain = recalibrate(source.predictor, hidden, source.card, nodes, seed=seed)
    found = {SOURCE: Answer(source.card.probe.temperature), ATLAS: Answer.of(plain)}
    place = {int(node): row for row, node in enumerate(nodes)}
    for count in BUDGETS:
        for draw in range(1, DRAWS + 1):
            plan = suggest_labels(plain, min(count, nodes.size // 2), seed=draw)
            known = {int(node): int(target.labels[node]) for node in plan.nodes}
            result = recalibrate(
                source.predictor, hidden, source.card, nodes, seed=seed, labels=known, plan=plan
            )
            rows = np.array([place[node] for node in known])
            alone = temperature.solve(logits[rows], np.array(list(known.values())))
            both, only = _names(count, draw)
            found[both], found[only] = Answer.of(result), Answer(alone.temperature)
    return found
