"""The command line: parse, call, print."""

from __future__ import annotations

import io
import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import App, CycloptsError, Parameter

from graphtemper import __version__
from graphtemper.errors import GraphTemperError

if TYPE_CHECKING:
    from rich.console import Console

BAD_INPUT, INTERRUPTED = 2, 130

app = App(
    name="graphtemper",
    help="Honest confidence for graph neural networks on graphs that changed.",
    version=__version__,
    help_format="plaintext",
)
data = App(name="data", help="List and inspect graphs.")
app.command(data)

Json = Annotated[bool, Parameter(name="--json", negative="", help="Print JSON for machines.")]


@app.command
def demo(*, out: Path = Path("artifacts/demo"), seed: int = 0, as_json: Json = False) -> None:
    """Run the main job end to end on an embedded graph: train, shift, recalibrate, table, picture.

    Parameters
    ----------
    out
        Folder for the picture.
    seed
        Seed of the graphs that are drawn.
    as_json
        Print JSON for machines.
    """
    from graphtemper.experiments import demo as job
    from graphtemper.report.style import draw

    with _working("training, shifting, recalibrating", as_json):
        result = job.run(seed)
        picture = draw(out / "demo.png", lambda figure: job.draw(figure, result))
    if as_json:
        _print_json(result.to_dict() | {"picture": str(picture)})
        return
    console = _console()
    console.print(_table("The same predictions at four temperatures", result.scores))
    console.print(f"True accuracy of the predictions: {result.true_accuracy:.3f}")
    console.print(f"Verdict: {result.verdict}, because {result.reason}", markup=False)
    _say(f"Picture: {picture}")


@app.command
def paper(
    figure: str = "all",
    *,
    out: Path = Path("artifacts/paper"),
    results: Path | None = None,
    as_json: Json = False,
) -> None:
    """Reproduce one figure of the paper, or all: published beside measured.

    Writes FIGURE.png, FIGURE.csv and FIGURE.json, a Markdown page of everything in the folder, and
    beside it the claim-by-claim audit.

    Parameters
    ----------
    figure
        concept, slope, extensions, bound, temperature, label-free, synthetic, real, sweep,
        rewiring, audit, or all.
    out
        Folder for the files.
    results
        The Markdown page; results.md in the folder unless given.
    as_json
        Print JSON for machines.
    """
    from graphtemper import experiments
    from graphtemper.experiments.audit_page import render as render_audit
    from graphtemper.experiments.outcome import render_results, write_text

    names = list(experiments.FIGURES) if figure == "all" else [figure]
    outcomes = []
    for name in names:
        with _working(f"paper {name}", as_json):
            outcome = experiments.run(name)
            outcome.write(out)
        outcomes.append(outcome)
        if not as_json:
            rows = [_comparison_row(item) for item in outcome.to_dict()["comparisons"]]
            _console().print(_table(outcome.title, rows))
    page = results or out / "results.md"
    link = _relative(out, page.parent)
    write_text(page, render_results(out, experiments.FIGURES, link))
    write_text(page.with_name("audit.md"), render_audit(out))
    if as_json:
        _print_json([outcome.to_dict() for outcome in outcomes])
    else:
        _say(f"Files: {out}\nPage: {page}")


@data.command(name="list")
def list_data(*, as_json: Json = False) -> None:
    """List the known graphs, their licences, and which of them are on this machine.

    Parameters
    ----------
    as_json
        Print JSON for machines.
    """
    from dataclasses import asdict

    from graphtemper import datasets

    entries = []
    for name, entry in datasets.CATALOGUE.items():
        path = datasets.find(name)
        entries.append(asdict(entry) | {"path": None if path is None else str(path)})
    if as_json:
        _print_json(entries)
        return
    columns = {"name": "name", "nodes": "N", "edges": "E", "features": "F", "classes": "K"}
    columns |= {"homophily": "h", "licence": "licence"}
    rows = [
        {head: entry[key] for key, head in columns.items()}
        | {"here": "yes" if entry["path"] else "no"}
        for entry in entries
    ]
    _console().print(_table("Graphs (what they are, credits, paths: --json)", rows))


@data.command(name="fetch")
def fetch_data(name: str, *, as_json: Json = False) -> None:
    """Download a graph of the paper into the user's cache, verified by its git blob id.

    Parameters
    ----------
    name
        roman_empire, amazon_ratings, questions, minesweeper or tolokers.
    as_json
        Print JSON for machines.
    """
    from rich.progress import DownloadColumn, Progress, TimeRemainingColumn

    from graphtemper import datasets

    columns = ("{task.description}", DownloadColumn(), TimeRemainingColumn())
    console = _console(stderr=True)
    quiet = as_json or not console.is_terminal
    with Progress(*columns, console=console, disable=quiet) as bar:
        task = bar.add_task(name, total=None)
        path = datasets.fetch(
            name, progress=lambda done, total: bar.update(task, completed=done, total=total)
        )
    if as_json:
        _print_json({"name": name, "path": str(path)})
    else:
        _say(f"{name}: {path}")


@data.command(name="inspect")
def inspect_data(graph: str, *, as_json: Json = False) -> None:
    """Say what is in a graph: sizes, class shares, homophily, splits.

    Parameters
    ----------
    graph
        A name from `data list`, or the path of an .npz file.
    as_json
        Print JSON for machines.
    """
    from graphtemper import datasets

    found = datasets.inspect(graph)
    if as_json:
        _print_json(found)
        return
    _console().print(_table(str(graph), [{"what": k, "value": str(v)} for k, v in found.items()]))


def main() -> None:
    """Run the command line; bad input ends with one sentence and exit code 2."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    try:
        app(exit_on_error=False, print_error=False, result_action="return_value")
    except (GraphTemperError, CycloptsError) as error:
        sentence = " ".join(str(error).split())
        print(f"graphtemper: {sentence}", file=sys.stderr)
        sys.exit(BAD_INPUT)
    except KeyboardInterrupt:
        print("graphtemper: interrupted.", file=sys.stderr)
        sys.exit(INTERRUPTED)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(0)
    except (OSError, ValueError, ArithmeticError, MemoryError, RecursionError) as error:
        if os.environ.get("GRAPHTEMPER_DEBUG"):
            raise
        sentence = " ".join(str(error).split()) or type(error).__name__
        print(f"graphtemper: {sentence} (set GRAPHTEMPER_DEBUG=1 to see where).", file=sys.stderr)
        sys.exit(BAD_INPUT)


def _comparison_row(item: dict[str, Any]) -> dict[str, Any]:
    return {
        "quantity": item["quantity"],
        "published": item["published"],
        "measured": item["measured"],
        "bar": item["bar"],
        "met": {True: "yes", False: "NO", None: "-"}[item["met"]],
    }


def _console(*, stderr: bool = False) -> Console:
    from rich.console import Console

    return Console(stderr=stderr)


def _say(text: str) -> None:
    """Print text that may hold a path: no markup, no wrapping."""
    _console().print(text, soft_wrap=True, markup=False, highlight=False)


def _working(what: str, quiet: bool) -> Any:
    """Show a spinner on the terminal; nothing where a machine reads."""
    from contextlib import nullcontext

    console = _console(stderr=True)
    return nullcontext() if quiet or not console.is_terminal else console.status(what)


def _table(title: str, rows: list[dict[str, Any]]) -> Any:
    from rich.table import Table
    from rich.text import Text

    table = Table(title=Text(title), title_justify="left")
    for column, value in rows[0].items():
        number = isinstance(value, (int, float))
        table.add_column(
            column, justify="right" if number else "left", no_wrap=column in ("name", "here")
        )
    for row in rows:
        table.add_row(*(Text(_cell(value)) for value in row.values()))
    return table


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _print_json(value: Any) -> None:
    print(json.dumps(value, indent=1))


def _relative(folder: Path, start: Path) -> str:
    relative = os.path.relpath(folder, start)
    return "" if relative == "." else relative.replace(os.sep, "/") + "/"
