"""`graphtemper bench`: the atlas on trial, on real graphs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import App, Parameter

from graphtemper.cli.output import console, print_json, print_line, progress, table
from graphtemper.cli.parameters import Json

if TYPE_CHECKING:
    from graphtemper_research.harness.outcome import Outcome


bench = App(name="bench", help="Compare methods on real graphs under known and natural shifts.")

Models = Annotated[str, Parameter(help="SIGN, GCN (needs torch), or both, joined by commas.")]
Embedded = Annotated[
    bool, Parameter(negative="", help="Measure 64 components of all sparse features as well.")
]
Seeds = Annotated[int | None, Parameter(help="How many splits to average over.")]


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Run:
    """What every bench can be told."""

    quick: Annotated[
        bool,
        Parameter(negative="", help="Little data and a small atlas: to see that it runs."),
    ] = False
    out: Annotated[
        Path | None,
        Parameter(help="Folder for the files; artifacts/ and the bench's name unless given."),
    ] = None
    as_json: Json = False


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class OnGraphs(Run):
    """A bench that takes graphs one by one."""

    graphs: Annotated[
        str | None,
        Parameter(help="Names from `data list` or paths, joined by commas; the bench has its own."),
    ] = None


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class OnPairs(Run):
    """A bench that takes a model from one graph to another."""

    groups: Annotated[
        str | None,
        Parameter(help="twitch, airports, counties, time, joined by commas; all unless given."),
    ] = None


_PLAIN, _GRAPHS, _PAIRS = Run(), OnGraphs(), OnPairs()


@bench.default
@bench.command(name="all")
def every(
    request: OnGraphs = _GRAPHS,
    *,
    models: Annotated[
        str | None,
        Parameter(help="SIGN, GCN, GAT, GraphSAGE, joined by commas; all unless given."),
    ] = None,
    seeds: Seeds = None,
    groups: Annotated[
        str | None,
        Parameter(
            help="Natural pairs: twitch, airports, counties, time; airports and counties unless "
            "graphs are named."
        ),
    ] = None,
    calibrators: Annotated[
        str | None, Parameter(help="Names of calibrators; all that do not retrain unless given.")
    ] = None,
    retrain: Annotated[
        str, Parameter(help="Tent, GDeltaUQ, GDASpecReg beside the GCN: minutes for every target.")
    ] = "",
    jobs: Annotated[int, Parameter(help="Cells to measure at a time.")] = 1,
    scheduler: Annotated[
        str | None,
        Parameter(help="A Dask scheduler, as in tcp://host:8786, whose workers measure the cells."),
    ] = None,
) -> None:
    """Compare every calibrator, estimator and the atlas under every shift: the leaderboard.

    Finished cells are kept in OUT/cells and not measured again.
    """
    named = {"groups": groups, "calibrators": calibrators, "retrain": retrain or None}
    listed: dict[str, Any] = {n: _listed(text) for n, text in named.items() if text is not None}
    room = "graphtemper_research.leaderboard"
    _run(
        "board",
        "summary",
        "leaderboard",
        request,
        models,
        seeds,
        room,
        jobs=jobs,
        scheduler=scheduler,
        **listed,
    )


@bench.command
def atlas(
    request: OnGraphs = _GRAPHS, *, models: Models = "SIGN", seeds: Seeds = 3, svd: Embedded = False
) -> None:
    """Put the atlas on trial: sixteen shifts of every graph, families known and unknown.

    A graph's name with +svd64 at its end means 64 components of its sparse features; --svd measures
    these as well as all graphs. Finished cells are kept in OUT/cells and not measured again.
    """
    _run("known_shifts", "summary", "atlas_bench", request, models, seeds, svd=svd)


@bench.command
def natural(request: OnPairs = _PAIRS, *, models: Models = "SIGN", seeds: Seeds = None) -> None:
    """Take a model to other countries, another election and later years: shifts nobody drew.

    Finished sources are kept in OUT/cells and not measured again.
    """
    _run("natural_shifts", "natural_summary", "natural_shifts", request, models, seeds)


@bench.command
def labels(request: OnPairs = _PAIRS, *, models: Models = "SIGN", seeds: Seeds = None) -> None:
    """Add fifty and two hundred labels to the atlas on every natural shift.

    Finished sources are kept in OUT/cells and not measured again.
    """
    _run("label_budgets", "labels_summary", "labels", request, models, seeds)


@bench.command
def controls(request: OnGraphs = _GRAPHS, *, models: Models = "SIGN", seeds: Seeds = None) -> None:
    """Show what the atlas says about shifts that no unlabelled number can show: its limits.

    Finished graphs are kept in OUT/cells and not measured again.
    """
    _run("negative_controls", "negative_controls", "controls", request, models, seeds)


@bench.command
def paper_setting(request: OnGraphs = _GRAPHS) -> None:
    """Put the atlas into the paper's real-graph table: feature noise 1.0, its own splits.

    Finished graphs are kept in OUT/cells and not measured again.
    """
    _run("paper_setting", "paper_setting", "paper_setting", request)


@bench.command
def sets(request: OnGraphs = _GRAPHS, *, models: Models = "SIGN", seeds: Seeds = None) -> None:
    """Measure what prediction sets cover under shift, recalibrated or not: APS, RAPS and DAPS.

    Finished graphs are kept in OUT/cells and not measured again.
    """
    _run("prediction_sets", "sets_summary", "sets", request, models, seeds)


@bench.command
def class_shares(
    request: OnGraphs = _GRAPHS, *, models: Models = "SIGN", seeds: Seeds = None
) -> None:
    """Move class shares: how well they are estimated without labels, and what correcting does.

    Finished graphs are kept in OUT/cells and not measured again.
    """
    _run("class_share_shifts", "class_shares_summary", "class_shares", request, models, seeds)


@bench.command
def per_node(request: OnGraphs = _GRAPHS, *, models: Models = "SIGN", seeds: Seeds = None) -> None:
    """Give every node its own temperature: what that saves under sixteen shifts, and where.

    Finished graphs are kept in OUT/cells and not measured again.
    """
    _run("per_node_temperatures", "per_node_summary", "per_node", request, models, seeds)


@bench.command
def monitoring(
    request: Run = _PLAIN,
    *,
    series: Annotated[
        str | None,
        Parameter(help="drift, steady, pubmed, twitch_de, joined by commas; all unless given."),
    ] = None,
) -> None:
    """Watch a model while its graph drifts: how soon the alarm comes, and what it costs.

    Finished snapshots are kept in logs in OUT and not measured again.
    """
    _run("monitoring", "monitoring", "monitoring", request, chosen=series)


def _run(
    job: str,
    pages: str,
    name: str,
    request: Run,
    models: str | None = None,
    seeds: int | None = None,
    room: str = "graphtemper_research.trials",
    chosen: str | None = None,
    **other: Any,
) -> None:
    """Run one experiment of a room and leave its files and tables."""
    if isinstance(request, OnGraphs):
        chosen = request.graphs
    elif isinstance(request, OnPairs):
        chosen = request.groups
    out = request.out or Path("artifacts") / name
    told: dict[str, Any] = {"quick": request.quick, **other}
    if models is not None:
        told["models"] = _listed(models)
    if seeds is not None:
        told["seeds"] = seeds
    with _resumable(out):
        run = import_module(f"{room}.{job}").run
        with progress(request.as_json) as show:
            found = run(out, None if chosen is None else _listed(chosen), progress=show, **told)
        _leave(found, import_module(f"{room}.{pages}"), out, request.as_json)


@contextmanager
def _resumable(out: Path) -> Iterator[None]:
    """Say after an interruption what was kept."""
    try:
        yield
    except KeyboardInterrupt:
        raise KeyboardInterrupt(
            f"interrupted; finished cells are kept in {out / 'cells'}: run the same command again "
            "to go on."
        ) from None


def _leave(found: Outcome, pages: ModuleType, out: Path, as_json: bool) -> None:
    """Write the files; print the outcome for machines, or tables and bars for people."""
    from graphtemper_research.harness.outcome import write_text
    from graphtemper_research.harness.tables import bars

    found.write(out)
    write_text(out / f"{found.name}.md", pages.render(found))
    if as_json:
        print_json(found.to_dict())
        return
    for title, rows in pages.shown(found).items():
        console().print(table(title, rows), "")
    # The notes are long; they are in the files.
    asked = [dict(list(row.items())[:4]) for row in bars(found.comparisons)]
    console().print(table("What was asked for", asked))
    print_line(f"Files: {out}")


def _listed(text: str) -> list[str]:
    return [item.strip() for item in text.split(",") if item.strip()]
