"""The leaderboard: every cell that is not on disk yet, then the table of those asked for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import partial
from multiprocessing import get_context
from pathlib import Path

from graphtemper import shifts
from graphtemper._core.checks import check_whole
from graphtemper.card import atlas
from graphtemper.errors import InputError
from graphtemper.scale.engine import connected
from graphtemper_research.harness import cells
from graphtemper_research.harness.cells import Cell, Progress
from graphtemper_research.harness.outcome import Outcome
from graphtemper_research.leaderboard import summary
from graphtemper_research.leaderboard.methods import SOURCE_FITTED, competitors
from graphtemper_research.leaderboard.models import MODELS, check_models
from graphtemper_research.leaderboard.tasks import TITLED, Task, in_nature, known, measure
from graphtemper_research.trials import natural_shifts as natural
from graphtemper_research.trials.known_shifts import graphs_here, title
from graphtemper_research.trials.natural_shifts import PAIRS, Pair
from graphtemper_research.trials.trial import QUICK_COMPOSITIONS

SEEDS = 3
GROUPS = ("airports", "counties")
QUICK_GRAPHS, QUICK_MODELS = ("county_2012",), ("SIGN",)
QUICK_SHIFTS = tuple(
    title(shift) for shift in (None, shifts.noise(1.0), shifts.rewire(0.5), shifts.scale(2.5))
)
# Trained in seconds; the others take a minute and more.
QUICK_CALIBRATORS = (
    "VectorScaling",
    "MatrixScaling",
    "Dirichlet",
    "EnsembleTemperature",
    "Isotonic",
    "IsotonicShared",
    "HistogramBinning",
    "RBS",
    "CaGCN",
    "SimCalib",
    "WATS",
)
OUTER = "leaderboard"


def run(
    out: Path,
    graphs: Sequence[str] | None = None,
    models: Sequence[str] | None = None,
    seeds: int = SEEDS,
    *,
    groups: Sequence[str] | None = None,
    calibrators: Sequence[str] | None = None,
    retrain: Sequence[str] = (),
    jobs: int = 1,
    scheduler: str | None = None,
    quick: bool = False,
    pairs: Sequence[Pair] = PAIRS,
    progress: Progress | None = None,
) -> Outcome:
    """Measure every cell that is not in ``out/cells`` yet and rank the methods over all of them.

    Parameters
    ----------
    out
        Folder for the cells; the caller writes the outcome.
    graphs
        Names of the catalogue or paths; default every large graph that is here.
    models
        Names from `MODELS`; default all.
    seeds
        How many splits: 1, 2, ...
    groups
        Groups of natural pairs; default airports and counties, or none where graphs are named.
    calibrators, retrain
        Names of those that are fitted at the source (default all that do not retrain), and of
        those that retrain.
    jobs
        How many cells to measure at a time, each in a process of its own. The survey of one cell
        already runs on all cores; fitting the calibrators runs on one.
    scheduler
        Address of a Dask scheduler whose workers measure the cells instead; they need the graphs
        and ``out`` under the same paths.
    quick
        One small graph, four shifts and the calibrators that take seconds.
    progress
        Called with a title, steps done and steps in all cells.
    """
    check_whole(seeds, "seeds", 1)
    check_whole(jobs, "jobs", 1)
    wanted_models = list(models or (QUICK_MODELS if quick else tuple(MODELS)))
    check_models(wanted_models)
    chosen = calibrators or (QUICK_CALIBRATORS if quick else SOURCE_FITTED)
    chosen = (*chosen, *(name for name in retrain if name not in chosen))
    competitors(wanted_models[0], chosen)  # refuses unknown names before anything is measured
    here = graphs_here()
    names = list(graphs) if graphs is not None else here
    if graphs is None and quick:
        names = [name for name in QUICK_GRAPHS if name in here] or here[:1]
    told = {
        "compositions": QUICK_COMPOSITIONS if quick else atlas.COMPOSITIONS,
        "calibrators": tuple(chosen),
    }
    found = known(
        names,
        wanted_models,
        1 if quick else seeds,
        shifts=QUICK_SHIFTS if quick else tuple(TITLED),
        **told,
    )
    missing: list[str] = []
    asked = list(groups) if groups is not None else list(GROUPS if graphs is None else ())
    if asked and (groups is not None or not quick):
        present, missing = natural.wanted(pairs, asked, quick=False)
        found += in_nature(present, wanted_models, seeds, **told)
    if not found:
        raise InputError("no graph to measure; `graphtemper data list` shows what is here.")
    if scheduler is not None:
        with connected(scheduler) as engine:
            cells_found = engine.map(partial(cell, folder=(out / "cells").absolute()), found)
        return summary.outcome(cells_found, missing)
    return summary.outcome(_measured(found, out / "cells", jobs, progress), missing)


def _measured(
    tasks: Sequence[Task], folder: Path, jobs: int, progress: Progress | None
) -> list[Cell]:
    total = sum(task.steps for task in tasks)
    if jobs == 1:
        found, before = [], 0
        for task in tasks:
            found.append(cell(task, folder, _within(progress, before, total)))
            before += task.steps
            if progress is not None:
                progress(OUTER, before, total)
        return found
    # Fresh interpreters: torch's threads do not survive a fork.
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        running = {pool.submit(cell, task, folder): task for task in tasks}
        done = 0
        for future in as_completed(running):
            future.result()
            done += running[future].steps
            if progress is not None:
                progress(OUTER, done, total)
        finished = {task.title: future.result() for future, task in running.items()}
    return [finished[task.title] for task in tasks]


def _within(progress: Progress | None, before: int, total: int) -> Progress | None:
    """Return a progress that counts the steps of one cell into those of all."""
    if progress is None:
        return None
    return lambda title, done, steps: progress(OUTER, before + done, total)


def cell(task: Task, folder: Path, progress: Progress | None = None) -> Cell:
    """Return a task's cell from its file, or measure it and write the file."""

    def measured(show: Callable[[int, int], None] | None) -> cells.Rows:
        return measure(task, show)

    return cells.finish(folder, task.title, task.head, task.expected, measured, progress)
