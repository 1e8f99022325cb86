"""The command line: parse, call, print."""

from __future__ import annotations

import json
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
    console.print(f"Verdict: [bold]{result.verdict}[/bold], because {result.reason}")
    console.print(f"Picture: {picture}", soft_wrap=True)


@app.command
def paper(
    figure: str = "all",
    *,
    out: Path = Path("artifacts/paper"),
    results: Path | None = None,
    as_json: Json = False,
) -> None:
    """Reproduce one figure of the paper, or all: published beside measured.

    Writes FIGURE.png, FIGURE.csv and FIGURE.json, and a Markdown page of everything in the folder.

    Parameters
    ----------
    figure
        concept, slope, extensions, bound, temperature, or all.
    out
        Folder for the files.
    results
        The Markdown page; results.md in the folder unless given.
    as_json
        Print JSON for machines.
    """
    from graphtemper import experiments
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
    if as_json:
        _print_json([outcome.to_dict() for outcome in outcomes])
    else:
        _console().print(f"Files: {out}", f"Page: {page}", sep="\n", soft_wrap=True)


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


def main() -> None:
    """Run the command line; bad input ends with one sentence and exit code 2."""
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


def _comparison_row(item: dict[str, Any]) -> dict[str, Any]:
    return {
        "quantity": item["quantity"],
        "published": item["published"],
        "measured": item["measured"],
        "bar": item["bar"],
        "met": "yes" if item["met"] else "NO",
    }


def _console() -> Console:
    from rich.console import Console

    return Console()


def _working(what: str, quiet: bool) -> Any:
    """Show a spinner on the terminal; nothing where a machine reads."""
    from contextlib import nullcontext

    from rich.console import Console

    console = Console(stderr=True)
    return nullcontext() if quiet or not console.is_terminal else console.status(what)


def _table(title: str, rows: list[dict[str, Any]]) -> Any:
    from rich.table import Table

    table = Table(title=title, title_justify="left")
    for column, value in rows[0].items():
        number = isinstance(value, (int, float))
        table.add_column(
            column, justify="right" if number else "left", no_wrap=column in ("name", "here")
        )
    for row in rows:
        table.add_row(*(_cell(value) for value in row.values()))
    return table


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _print_json(value: Any) -> None:
    print(json.dumps(value, indent=1))


def _relative(folder: Path, start: Path) -> str:
    import os

    relative = os.path.relpath(folder, start)
    return "" if relative == "." else relative.replace(os.sep, "/") + "/"
