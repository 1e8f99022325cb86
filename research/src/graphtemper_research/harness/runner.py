"""A bench is declared, one runner measures it: resumable cells, a page, JSON and a picture.

A trial declares a `Bench`: its cases, the rows made of their cells, bars, tables and a picture.
`run` measures the cases that are not on disk yet, and `publish` writes the files.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Any

from graphtemper import errors
from graphtemper_research.harness.cells import Case, Cell, Progress, finish
from graphtemper_research.harness.frame import Row, Rows, distinct, grouped
from graphtemper_research.harness.layout import (
    Cells,
    Table,
    bar_table,
    listed,
    markdown,
    render_tables,
)
from graphtemper_research.harness.outcome import (
    Comparison,
    Outcome,
    made_by,
    prefixed,
    reported,
    write_text,
)
from graphtemper_research.harness.provenance import stamp

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Composed shifts in the atlas of every card, as by default.
COMPOSITIONS = 70
# A quick run shows that everything works; its atlas is too small for a result.
QUICK_COMPOSITIONS = 10


@dataclass(frozen=True)
class Request:
    """What can be chosen about any bench.

    Parameters
    ----------
    out
        Folder of the cells and the files.
    names
        Graphs, groups of pairs or series, by name or path; None for those of the bench.
    models
        Names of models; None for those of the bench.
    seeds
        Number of splits, 1, 2, ...; None for that of the bench, and one in a quick run.
    quick
        Little data and a small atlas: a smoke test, not a result.
    """

    out: Path
    names: Sequence[str] | None = None
    models: Sequence[str] | None = None
    seeds: int | None = None
    quick: bool = False

    @property
    def compositions(self) -> int:
        """Number of composed shifts in the atlas of every card."""
        return QUICK_COMPOSITIONS if self.quick else COMPOSITIONS

    def splits(self, usual: int = 1) -> range:
        """Return the seeds of the splits.

        Examples
        --------
        >>> list(Request(Path("out"), seeds=2).splits()), list(Request(Path("out")).splits(3))
        ([1, 2], [1, 2, 3])
        """
        count = self.seeds if self.seeds is not None else (1 if self.quick else usual)
        if count < 1:
            raise errors.range(f"seeds must be at least 1, not {count}.")
        return range(1, count + 1)


# The cases of a request, and the graphs it lacks.
Selection = tuple[list[Case], list[str]]


def usual_settings(cells: Sequence[Cell], rows: Sequence[Row]) -> dict[str, Any]:
    """Return the settings that most pages state."""
    return {f"{key}s": distinct(cells, key) for key in ("model", "seed")} | {
        "compositions": distinct(cells, "compositions")
    }


Compare = Callable[[Sequence[Row], Sequence[Cell]], list[Comparison]]


def per(
    key: str, compare: Callable[[Sequence[Row]], list[Comparison]], mark: str = ": "
) -> Compare:
    """Return the bars of every value of a key, each with the value before its quantity."""

    def bars(rows: Sequence[Row], cells: Sequence[Cell]) -> list[Comparison]:
        return [
            bar
            for (value,), own in grouped(rows, key).items()
            for bar in prefixed(f"{value}{mark}", compare(own))
        ]

    return bars


@dataclass(frozen=True)
class Bench:
    """An evaluation, declared.

    Parameters
    ----------
    name, title, command
        Of the files, of the page, and the command that runs it.
    introduction
        What the columns of the tables mean, in Markdown.
    cases
        Returns the cases of a request, and which graphs are not on this machine.
    rows
        Returns the rows of the outcome, made of the cells.
    bars
        Returns the comparisons, made of rows and cells.
    tables, terminal
        The tables of the page, and those for a terminal of 80 columns.
    sections
        Keys of the rows: the tables of each combination of their values stand together.
    draw, size
        Draws the picture, if there is one; its width and height in inches.
    settings
        Returns what the page states about the run.
    """

    name: str
    title: str
    command: str
    introduction: str
    cases: Callable[[Request], Selection]
    rows: Callable[[Sequence[Cell]], Rows]
    bars: Compare
    tables: Sequence[Table]
    terminal: Sequence[Table]
    draw: Callable[[Figure, Sequence[Row], Sequence[Cell]], None] | None = None
    size: Callable[[Sequence[Row]], tuple[float, float]] = lambda rows: (8.0, 4.0)
    sections: Sequence[str] = ("model",)
    settings: Callable[[Sequence[Cell], Sequence[Row]], Mapping[str, Any]] = usual_settings

    def outcome(self, cells: Sequence[Cell], missing: Sequence[str] = ()) -> Outcome:
        """Summarise finished cells."""
        rows, draw = self.rows(cells), self.draw
        return Outcome(
            name=self.name,
            title=self.title,
            settings=self.settings(cells, rows),
            comparisons=[*self.bars(rows, cells), *skipped(missing)],
            rows=rows,
            draw=None if draw is None else lambda figure: draw(figure, rows, cells),
            size=self.size(rows),
            measured=stamp(
                f"graphtemper {self.command}", sum(cell.get("cpu_seconds", 0.0) for cell in cells)
            ),
        )

    def page(self, content: Mapping[str, Any]) -> str:
        """Return the Markdown page of an outcome, from what its JSON file holds."""
        settings = "; ".join(f"{key} {listed(item)}" for key, item in content["settings"].items())
        lines = [
            f"# {self.title}",
            "",
            f"Generated by `graphtemper {self.command}`; do not edit. Settings: {settings}. "
            f"{made_by(content)}",
            "",
            self.introduction,
            "",
            *markdown(bar_table(content["comparisons"])),
        ]
        for title, rows in render_tables(self.tables, self.sections, content["rows"]).items():
            lines += ["", f"## {title}", "", *markdown(rows)]
        return "\n".join(lines) + "\n"

    def shown(self, content: Mapping[str, Any]) -> dict[str, Cells]:
        """Return titled tables for a terminal, from what the JSON file of an outcome holds."""
        return render_tables(self.terminal, self.sections, content["rows"])


def run(
    bench: Bench,
    request: Request,
    progress: Progress | None = None,
    *,
    jobs: int = 1,
    scheduler: str | None = None,
) -> Outcome:
    """Measure every case that is not in ``out/cells`` yet and summarise all of the request.

    Parameters
    ----------
    bench, request
        What to measure, and on what.
    progress
        Called with a title, steps done and steps in all.
    jobs
        Number of cases to measure at a time, each in a process of its own. The survey of a card
        already runs on all cores; fitting calibrators runs on one.
    scheduler
        Address of a Dask scheduler whose workers measure the cases instead; they need the graphs
        and ``out`` under the same paths.
    """
    if jobs < 1:
        raise errors.range(f"jobs must be at least 1, not {jobs}.")
    cases, missing = bench.cases(request)
    if not cases:
        raise errors.empty("no graph to measure; `graphtemper data list` shows what is here.")
    title, count = Counter(case.title for case in cases).most_common(1)[0]
    if count > 1:
        raise errors.repeated(
            f"two measurements are called {title}; graphs are known by the names of their files, "
            "so rename one."
        )
    measure = partial(finish, folder=(request.out / "cells").absolute())
    if scheduler is not None:
        from graphtemper.scale import connected

        with connected(scheduler) as engine:
            cells = engine.map(measure, cases)
    elif jobs > 1:
        cells = _in_processes(measure, cases, jobs, bench.name, progress)
    else:
        cells = [measure(case, progress=progress) for case in cases]
    return bench.outcome(cells, missing)


def _in_processes(
    measure: Callable[[Case], Cell],
    cases: Sequence[Case],
    jobs: int,
    title: str,
    progress: Progress | None,
) -> list[Cell]:
    # Fresh interpreters: torch's threads do not survive a fork.
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        futures = [pool.submit(measure, case) for case in cases]
        for done, future in enumerate(as_completed(futures), start=1):
            future.result()
            if progress is not None:
                progress(title, done, len(cases))
        return [future.result() for future in futures]


def publish(bench: Bench, outcome: Outcome, out: Path) -> list[Path]:
    """Write ``name.json``, the page and the picture, if any; return the paths."""
    page = out / f"{bench.name}.md"
    paths = outcome.write(out)
    write_text(page, bench.page(outcome.to_dict()))
    return [*paths, page]


def skipped(missing: Sequence[str]) -> list[Comparison]:
    """State which graphs are not on this machine, if any.

    Examples
    --------
    >>> skipped([]), skipped(["cora"])[0].note
    ([], 'cora')
    """
    what = "graphs that are not on this machine and were skipped"
    return [reported(what, len(missing), ", ".join(missing))] if missing else []
