"""`graphtemper bench`: the atlas on trial, on real graphs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Parameter

from graphtemper.cli.output import Json, console, print_json, progress, say, table

if TYPE_CHECKING:
    from graphtemper.experiments.outcome import Outcome

Flag = Annotated[bool, Parameter(negative="")]

bench = App(name="bench", help="Compare methods on real graphs under known and natural shifts.")


@bench.command
def atlas(
    *,
    graphs: str | None = None,
    models: str = "SIGN",
    seeds: int = 3,
    svd: Flag = False,
    quick: Flag = False,
    out: Path = Path("artifacts/atlas_bench"),
    as_json: Json = False,
) -> None:
    """Put the atlas on trial: sixteen shifts of every graph, families known and unknown.

    Finished cells are kept in OUT/cells and not measured again. Writes atlas_bench.md, .json,
    .csv and .png.

    Parameters
    ----------
    graphs
        Names from `data list` or paths, joined by commas; every large graph here unless given.
        With +svd64 at its end a name means 64 components of the graph's sparse features.
    models
        SIGN, GCN (needs torch), or both, joined by commas.
    seeds
        How many splits to average over.
    svd
        Measure 64 components of all sparse features as well.
    quick
        One seed, two small graphs, a small atlas: to see that it runs.
    out
        Folder for the files.
    as_json
        Print JSON for machines.
    """
    from graphtemper.experiments.atlas import known_shifts, summary

    names = None if graphs is None else _listed(graphs)
    with _resumable(out, as_json) as show:
        found = known_shifts.run(
            out, names, _listed(models), seeds, svd=svd, quick=quick, progress=show
        )
    _leave(found, summary.render, summary.shown, out, as_json)


@bench.command
def natural(
    *,
    groups: str | None = None,
    models: str = "SIGN",
    seeds: int = 1,
    quick: Flag = False,
    out: Path = Path("artifacts/natural_shifts"),
    as_json: Json = False,
) -> None:
    """Take a model to other countries, another election and later years: shifts nobody drew.

    Finished sources are kept in OUT/cells and not measured again. Writes natural_shifts.md, .json,
    .csv and .png.

    Parameters
    ----------
    groups
        twitch, airports, counties, time, or several, joined by commas; all unless given.
    models
        SIGN, GCN (needs torch), or both, joined by commas.
    seeds
        How many random halves of every source to train on.
    quick
        Airports and counties, a small atlas: to see that it runs.
    out
        Folder for the files.
    as_json
        Print JSON for machines.
    """
    from graphtemper.experiments.atlas import natural as job
    from graphtemper.experiments.atlas import natural_summary as summary

    names = None if groups is None else _listed(groups)
    with _resumable(out, as_json) as show:
        found = job.run(out, names, _listed(models), seeds, quick=quick, progress=show)
    _leave(found, summary.render, summary.shown, out, as_json)


@bench.command
def controls(
    *,
    graphs: str | None = None,
    models: str = "SIGN",
    seeds: int = 1,
    quick: Flag = False,
    out: Path = Path("artifacts/controls"),
    as_json: Json = False,
) -> None:
    """Show what the atlas says about shifts that no unlabelled number can show: its limits.

    Finished graphs are kept in OUT/cells and not measured again. Writes controls.md, .json, .csv
    and .png.

    Parameters
    ----------
    graphs
        Names from `data list` or paths, joined by commas; three graphs unless given.
    models
        SIGN, GCN (needs torch), or both, joined by commas.
    seeds
        How many splits.
    quick
        One small graph, a small atlas: to see that it runs.
    out
        Folder for the files.
    as_json
        Print JSON for machines.
    """
    from graphtemper.experiments.atlas import controls as job

    names = None if graphs is None else _listed(graphs)
    with _resumable(out, as_json) as show:
        found = job.run(out, names, _listed(models), seeds, quick=quick, progress=show)
    _leave(found, job.render, job.shown, out, as_json)


@bench.command
def paper_setting(
    *,
    graphs: str | None = None,
    quick: Flag = False,
    out: Path = Path("artifacts/paper_setting"),
    as_json: Json = False,
) -> None:
    """Put the atlas into the paper's real-graph table: feature noise 1.0, its own splits.

    Finished graphs are kept in OUT/cells and not measured again. Writes paper_setting.md, .json,
    .csv and .png.

    Parameters
    ----------
    graphs
        Names from `data list` or paths, joined by commas; every graph here unless given.
    quick
        One small graph and split, a small atlas: to see that it runs.
    out
        Folder for the files.
    as_json
        Print JSON for machines.
    """
    from graphtemper.experiments.atlas import paper_setting as job

    names = None if graphs is None else _listed(graphs)
    with _resumable(out, as_json) as show:
        found = job.run(out, names, quick=quick, progress=show)
    _leave(found, job.render, job.shown, out, as_json)


@contextmanager
def _resumable(out: Path, as_json: bool) -> Iterator[Callable[[str, int, int], None]]:
    """Show progress; say after an interruption what was kept."""
    try:
        with progress(as_json) as show:
            yield show
    except KeyboardInterrupt:
        raise KeyboardInterrupt(
            f"interrupted; finished cells are kept in {out / 'cells'}: run the same command again "
            "to go on."
        ) from None


def _leave(
    found: Outcome,
    render: Callable[[Outcome], str],
    shown: Callable[[Outcome], dict[str, list[dict[str, str]]]],
    out: Path,
    as_json: bool,
) -> None:
    """Write the files; print the outcome for machines, or tables and bars for people."""
    from graphtemper.experiments.atlas.tables import bars
    from graphtemper.experiments.outcome import write_text

    found.write(out)
    write_text(out / f"{found.name}.md", render(found))
    if as_json:
        print_json(found.to_dict())
        return
    for title, rows in shown(found).items():
        console().print(table(title, rows))
    # The notes are long; they are in the files.
    asked = [dict(list(row.items())[:4]) for row in bars(found.comparisons)]
    console().print(table("What was asked for", asked))
    say(f"Files: {out}")


def _listed(text: str) -> list[str]:
    return [item.strip() for item in text.split(",") if item.strip()]
