"""`graphtemper bench`: evaluate the atlas and its peers on real graphs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Parameter

from graphtemper.cli.options import Json
from graphtemper.cli.output import console, print_json, print_line, progress, table

if TYPE_CHECKING:
    from graphtemper_research.harness.runner import Bench

bench = App(
    name="bench",
    help="Compare methods on real graphs under known and natural shifts: name one, or all, which "
    "takes hours (minutes with --quick). Finished cells are kept in "
    "OUT/cells, so that the same command resumes an interrupted run.",
)

Graphs = Annotated[
    str | None,
    Parameter(help="Names from `data list` or paths, joined by commas; the bench has defaults."),
]
Groups = Annotated[
    str | None, Parameter(help="twitch, airports, counties, time, joined by commas; default all.")
]


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Run:
    """The options of every bench."""

    quick: Annotated[
        bool, Parameter(negative="", help="Little data and a small atlas: a smoke test.")
    ] = False
    out: Annotated[
        Path | None,
        Parameter(help="Folder for the files; artifacts/ and the name by default."),
    ] = None
    jobs: Annotated[int, Parameter(help="Number of cells to measure at a time.")] = 1
    scheduler: Annotated[
        str | None,
        Parameter(help="A Dask scheduler, as in tcp://host:8786, whose workers measure the cells."),
    ] = None
    as_json: Json = False


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Splits:
    """Which models, on how many splits of the nodes."""

    models: Annotated[
        str | None,
        Parameter(
            help="SIGN, or with torch GCN, PyG-GCN, PyG-GAT, PyG-SAGE, joined by commas; default "
            "SIGN. `bench all` also knows SGC, GAT, GraphSAGE, APPNP, FAGCN, A-DGN, GPR-GNN, "
            "GraphCON; default SIGN,GCN,GraphSAGE,SGC,APPNP."
        ),
    ] = None
    seeds: Annotated[int | None, Parameter(help="Number of splits to average over.")] = None


RUN, SPLITS = Run(), Splits()


@bench.command(name="all")
def every(
    run: Run = RUN,
    splits: Splits = SPLITS,
    *,
    graphs: Graphs = None,
    groups: Annotated[
        str | None,
        Parameter(
            help="Natural families: airports, counties, villages, bitcoin, bugs, covid, twitch, "
            "houses, time, languages; default all unless graphs are named."
        ),
    ] = None,
    calibrators: Annotated[
        str | None, Parameter(help="Names of calibrators; default all that do not retrain.")
    ] = None,
    retrain: Annotated[
        str | None,
        Parameter(help="FocalLoss, GCL, Tent, GDeltaUQ, GDASpecReg, measured next to the GCN."),
    ] = None,
    finished: Annotated[
        bool, Parameter(negative="", help="Summarise every cell in OUT/cells and measure nothing.")
    ] = False,
) -> None:
    """Compare every calibrator, estimator and the atlas under every shift: the leaderboard."""
    from graphtemper_research.harness import runner
    from graphtemper_research.leaderboard import board, page, raw

    if finished:
        out = run.out or Path("artifacts") / board.NAME
        runner.publish(board.BENCH, board.BENCH.outcome(raw.cells_in(out)), out)
    else:
        options = (_listed(groups), _listed(calibrators), _listed(retrain) or ())
        out = _run(board.bench(*options), run, splits, graphs)
    page.write_page(out / f"{board.NAME}.html", raw.rows_in(out))


@bench.command
def atlas(
    run: Run = RUN,
    splits: Splits = SPLITS,
    *,
    graphs: Graphs = None,
    svd: Annotated[
        bool, Parameter(negative="", help="Measure 64 components of all sparse features as well.")
    ] = False,
) -> None:
    """Evaluate the atlas under sixteen shifts and four of homophily, families known and unknown.

    A graph's name with +svd64 at its end means 64 components of its sparse features.
    """
    from graphtemper_research.trials import known_shifts

    _run(known_shifts.bench(embeddings=svd), run, splits, graphs)


@bench.command
def natural(
    run: Run = RUN,
    splits: Splits = SPLITS,
    *,
    families: Annotated[
        str | None,
        Parameter(
            help="airports, villages, covid_us, bugs, twitch, ud, county, bitcoin, houses, joined "
            "by commas; default all."
        ),
    ] = None,
    finished: Annotated[
        bool, Parameter(negative="", help="Summarise every cell in OUT/cells and measure nothing.")
    ] = False,
) -> None:
    """Take a model to other months, countries and releases: without labels, with others, with few.

    One run makes three pages: natural_rule (no labels), natural_labels and natural_environments,
    which needs a family of at least three graphs.
    """
    out = run.out or Path("artifacts") / "natural"
    for name in ("natural_rule", "natural_labels", "natural_environments"):
        if finished:
            _publish(name, out)
        else:
            _run(name, replace(run, out=out), splits, families)


@bench.command
def decisions(run: Run = RUN, splits: Splits = SPLITS, *, families: str | None = None) -> None:
    """Estimate precision, recall and F1 under natural and drawn shifts, and with rare classes."""
    _run("decisions", run, splits, families)


@bench.command
def natural_pairs(run: Run = RUN, splits: Splits = SPLITS, *, groups: Groups = None) -> None:
    """Compare the atlas with its peers on pairs of graphs and on later years of one graph."""
    _run("natural_shifts", run, splits, groups)


@bench.command
def sessions(run: Run = RUN, splits: Splits = SPLITS, *, families: str | None = None) -> None:
    """Simulate labelling sessions under natural shifts: intervals at the stop, and labels taken."""
    _run("sessions", run, splits, families)


@bench.command
def labels(run: Run = RUN, splits: Splits = SPLITS, *, groups: Groups = None) -> None:
    """Add fifty and two hundred labels to the atlas on every natural shift."""
    _run("labels", run, splits, groups)


@bench.command
def controls(run: Run = RUN, splits: Splits = SPLITS, *, graphs: Graphs = None) -> None:
    """Show what the atlas says about shifts that no unlabelled number can show: its limits."""
    _run("controls", run, splits, graphs)


@bench.command
def paper_setting(run: Run = RUN, *, graphs: Graphs = None) -> None:
    """Add the atlas to the paper's real-graph table: feature noise 1.0, the paper's splits."""
    _run("paper_setting", run, SPLITS, graphs)


@bench.command
def sets(run: Run = RUN, splits: Splits = SPLITS, *, graphs: Graphs = None) -> None:
    """Measure what prediction sets cover under shift, recalibrated or not: APS, RAPS and DAPS."""
    _run("sets", run, splits, graphs)


@bench.command
def class_shares(run: Run = RUN, splits: Splits = SPLITS, *, graphs: Graphs = None) -> None:
    """Change class shares: how well they are estimated without labels, and what correcting does."""
    _run("class_shares", run, splits, graphs)


@bench.command
def per_node(run: Run = RUN, splits: Splits = SPLITS, *, graphs: Graphs = None) -> None:
    """Give every node its own temperature: what that saves under sixteen shifts, and where."""
    _run("per_node", run, splits, graphs)


@bench.command
def monitoring(
    run: Run = RUN,
    *,
    series: Annotated[
        str | None,
        Parameter(help="drift, steady, pubmed, twitch_de, joined by commas; default all."),
    ] = None,
) -> None:
    """Watch a model while its graph drifts: how soon the alarm comes, and what it costs."""
    _run("monitoring", run, SPLITS, series)


@bench.command
def pages(folder: Annotated[Path, Parameter(help="Folder with outcomes as JSON.")]) -> None:
    """Write the Markdown pages of finished benches again, without measuring anything."""
    from graphtemper_research import benches

    for path in benches.render(folder):
        print_line(str(path))


def _run(chosen: Bench | str, run: Run, splits: Splits, names: str | None) -> Path:
    """Run a bench, itself or by name; leave its files, tables and bars in the folder returned."""
    from graphtemper_research import benches
    from graphtemper_research.harness import runner
    from graphtemper_research.harness.layout import bar_table

    chosen = benches.load(chosen) if isinstance(chosen, str) else chosen
    out = run.out or Path("artifacts") / chosen.name
    request = runner.Request(out, _listed(names), _listed(splits.models), splits.seeds, run.quick)
    with _resumable(out):
        with progress(run.as_json) as show:
            outcome = runner.run(chosen, request, show, jobs=run.jobs, scheduler=run.scheduler)
        runner.publish(chosen, outcome, out)
    content = outcome.to_dict()
    if run.as_json:
        print_json(content)
        return out
    for title, rows in chosen.shown(content).items():
        console().print(table(title, rows), "")
    # The notes are long; they are in the files.
    bars = [dict(list(row.items())[:4]) for row in bar_table(content["comparisons"])]
    console().print(table("Bars", bars))
    print_line(f"Files: {out}")
    return out


def _publish(name: str, out: Path) -> None:
    """Write the files of a natural bench from the cells that are finished."""
    from graphtemper_research import benches
    from graphtemper_research.harness import cells, runner
    from graphtemper_research.trials.natural_environments import SCHEMA

    chosen = benches.load(name)
    found = cells.finished(out, SCHEMA)
    for path in runner.publish(chosen, chosen.outcome(found), out):
        print_line(str(path))


@contextmanager
def _resumable(out: Path) -> Iterator[None]:
    """Say after an interruption what is kept."""
    try:
        yield
    except KeyboardInterrupt:
        raise KeyboardInterrupt(
            f"interrupted; finished cells are kept in {out / 'cells'}: run the same command again "
            "to resume."
        ) from None


def _listed(text: str | None) -> list[str] | None:
    return None if text is None else [item.strip() for item in text.split(",") if item.strip()]
