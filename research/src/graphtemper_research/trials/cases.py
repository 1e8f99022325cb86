"""Benches that take graphs one by one: which graphs, models and splits a request means."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from graphtemper.card import atlas
from graphtemper.errors import InputError
from graphtemper_research.harness.cells import Cell, Progress
from graphtemper_research.trials import graph_names as features
from graphtemper_research.trials.trial import QUICK_COMPOSITIONS, check_request

# Folder, graph, model, seed, compositions and progress make a cell.
Measure = Callable[[Path, str, str, int, int, Progress | None], Cell]


def over_graphs(
    cell: Measure,
    out: Path,
    graphs: Sequence[str] | None,
    usual: Sequence[str],
    models: Sequence[str],
    seeds: int,
    *,
    quick: bool,
    progress: Progress | None,
) -> tuple[list[Cell], list[str]]:
    """Return a cell for every model, graph and seed, and which of the ``usual`` graphs are missing.

    Only where ``graphs`` is None the usual ones are meant; names that were asked for are not
    passed over.
    """
    check_request(models, seeds)
    here, missing = features.present(usual)
    names = here if graphs is None else list(graphs)
    if not names:
        raise InputError("no graph to measure; `graphtemper data list` shows what is here.")
    compositions = QUICK_COMPOSITIONS if quick else atlas.COMPOSITIONS
    found = [
        cell(out / "cells", name, model, seed, compositions, progress)
        for model in models
        for name in names
        for seed in range(1, seeds + 1)
    ]
    return found, missing if graphs is None else []
