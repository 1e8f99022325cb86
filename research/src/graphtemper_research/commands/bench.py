"""`graphtemper bench`: evaluate the atlas and its peers on real graphs."""

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
FAMILIES = "airports, villages, covid_us, bugs, twitch, ud, county, bitcoin, houses"
# What a bench is run on, by the name of the option.
NAMES = {
    "--sources": "Block models, graphs and families by name, joined by commas; default all.",
    "--graphs": "Names from `data list` or paths, joined by commas; the bench has defaults.",
    "--groups": "twitch, airports, counties, time, joined by commas; default all.",
    "--families": f"{FAMILIES}, joined by commas; default all.",
    "--series": "drift, steady, pubmed, twitch_de, joined by commas; default all.",
}
# Name of a command, of its benches, of its option, and what it does.
COMMANDS = (
    ("exam", ("exam",), "--sources", "Examine verdicts and intervals where the truth is known: "
     "fresh graphs, ends of shifts, accidents, natural shifts, labels."),
    ("atlas", ("atlas_bench",), "--graphs", "Evaluate the atlas under sixteen shifts and four of "
     "homophily, families known and unknown. A name with +svd64 at its end means 64 components."),
    ("natural", ("natural_rule", "natural_labels", "natural_environments"), "--families", "Take a "
     "model to other months, countries and releases: without labels, with others, with few."),
    ("decisions", ("decisions",), "--families", "Estimate precision, recall and F1 under natural "
     "and drawn shifts, and with rare classes."),
    ("sessions", ("sessions",), "--families", "Simulate labelling sessions under natural shifts: "
     "intervals at the stop, and labels taken."),
    ("labels", ("labels",), "--groups", "Add fifty and two hundred labels to the atlas on natural "
     "shifts."),
    ("controls", ("controls",), "--graphs", "Show what the atlas says about shifts that no "
     "unlabelled number can show: its limits."),
    ("paper-setting", ("paper_setting",), "--graphs", "Add the atlas to the paper's real-graph "
     "table: feature noise 1.0, the paper's splits."),
    ("sets", ("sets",), "--graphs", "Measure what prediction sets cover under shift, recalibrated "
     "or not: APS, RAPS and DAPS."),
    ("class-shares", ("class_shares",), "--graphs", "Change class shares: how well they are "
     "estimated without labels, and what correcting does."),
    ("per-node", ("per_node",), "--graphs", "Give every node its own temperature: what that saves "
     "under sixteen shifts, and where."),
    ("monitoring", ("monitoring",), "--series", "Watch a model while its graph drifts: how soon "
     "the alarm comes, and what it costs."),
    ("in-distribution", ("calibrators_in_distribution", "cf_gnn_sets"), "--graphs", "Compare "
     "calibrators where they were fitted, as GATS did, and the sizes of CF-GNN's sets."),
    ("card-attacks", ("card_attacks",), "--graphs", "Attack the labels in cards: linear "
     "programmes, rare classes, membership."),
)  # fmt: skip


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
    models: Annotated[
        str | None,
        Parameter(
            help="SIGN, or with torch GCN, PyG-GCN, PyG-GAT, PyG-SAGE, joined by commas; default "
            "SIGN, and for the exam also PyG-GCN,PyG-SAGE. `bench all` knows SGC, GAT, GraphSAGE, "
            "APPNP, FAGCN, A-DGN as well; default SIGN,GCN,GraphSAGE,SGC,APPNP."
        ),
    ] = None
    seeds: Annotated[int | None, Parameter(help="Number of splits to average over.")] = None
    jobs: Annotated[int, Parameter(help="Number of cells to measure at a time.")] = 1
    scheduler: Annotated[
        str | None,
        Parameter(help="A Dask scheduler, as in tcp://host:8786, whose workers measure the cells."),
    ] = None
    finished: Annotated[
        bool, Parameter(negative="", help="Summarise every cell in OUT/cells and measure nothing.")
    ] = False
    as_json: Json = False


RUN = Run()


def _add(command: str, names: tuple[str, ...], option: str, text: str) -> None:
    """Add the command that runs some benches, which share their cells."""

    def run(
        run: Run = RUN,
        *,
        chosen: Annotated[str | None, Parameter(name=option, help=NAMES[option])] = None,
    ) -> None:
        from graphtemper_research import benches

        out = run.out or Path("artifacts") / (command if len(names) > 1 else names[0])
        for name in names:
            _run(benches.load(name), replace(run, out=out), chosen)

    run.__doc__ = text
    bench.command(run, name=command)


for _command in COMMANDS:
    _add(*_command)


@bench.command(name="all")
def every(
    run: Run = RUN,
    *,
    graphs: Annotated[str | None, Parameter(help=NAMES["--graphs"])] = None,
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
) -> None:
    """Compare every calibrator, estimator and the atlas under every shift: the leaderboard."""
    from graphtemper_research.leaderboard import board

    chosen = board.bench(_listed(groups), _listed(calibrators), _listed(retrain) or ())
    _run(chosen, run, graphs)


def _run(chosen: "Bench", run: Run, names: str | None) -> None:
    """Run a bench, leave its files in a folder, and print its tables and bars."""
    from graphtemper_research.harness import cells, runner
    from graphtemper_research.harness.layout import bar_table

    out = run.out or Path("artifacts") / chosen.name
    request = runner.Request(out, _listed(names), _listed(run.models), run.seeds, run.quick)
    with _resumable(out):
        if run.finished:
            cases, _ = chosen.cases(request)
            outcome = chosen.outcome(cells.finished(out, cases[0].head["schema"]))
        else:
            with progress(run.as_json) as show:
                outcome = runner.run(chosen, request, show, jobs=run.jobs, scheduler=run.scheduler)
        runner.publish(chosen, outcome, out)
    content = outcome.to_dict()
    if run.as_json:
        print_json(content)
        return
    for title, rows in chosen.shown(content).items():
        console().print(table(title, rows), "")
    # The notes are long; they are in the files.
    bars = [dict(list(row.items())[:4]) for row in bar_table(content["comparisons"])]
    console().print(table("Bars", bars))
    print_line(f"Files: {out}")


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
