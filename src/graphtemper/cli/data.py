"""`graphtemper data`: list, fetch and inspect graphs."""

from __future__ import annotations

from cyclopts import App

from graphtemper.cli.options import GraphName, Json
from graphtemper.cli.output import console, print_json, print_line, table

data = App(name="data", help="List, fetch and inspect graphs.")


@data.command(name="list")
def list_data(*, as_json: Json = False) -> None:
    """List the known graphs, their licences, and which of them are on this machine."""
    from dataclasses import asdict

    from graphtemper.graph import datasets

    entries = []
    for name, entry in datasets.CATALOGUE.items():
        path = datasets.find(name)
        entries.append(asdict(entry) | {"path": None if path is None else str(path)})
    if as_json:
        print_json(entries)
        return
    columns = {"name": "name", "nodes": "N", "edges": "E", "features": "F", "classes": "K"}
    columns |= {"homophily": "h", "licence": "licence"}
    rows = [
        {head: entry[key] for key, head in columns.items()}
        | {"here": "yes" if entry["path"] else "no"}
        for entry in entries
    ]
    console().print(table("Graphs (descriptions, credits, paths: --json)", rows))


@data.command(name="fetch")
def fetch_data(name: str, *, as_json: Json = False) -> None:
    """Download a public graph into the user's cache and verify its checksum.

    Parameters
    ----------
    name
        roman_empire, amazon_ratings, questions, minesweeper or tolokers.
    """
    from rich.progress import DownloadColumn, Progress, TimeRemainingColumn

    from graphtemper.graph import datasets

    columns = ("{task.description}", DownloadColumn(), TimeRemainingColumn())
    errors = console(stderr=True)
    quiet = as_json or not errors.is_terminal
    with Progress(*columns, console=errors, disable=quiet) as bar:
        task = bar.add_task(name, total=None)
        try:
            path = datasets.fetch(
                name, progress=lambda done, total: bar.update(task, completed=done, total=total)
            )
        except KeyboardInterrupt:
            raise KeyboardInterrupt(
                "interrupted; the downloaded part is kept: run the same command again to resume."
            ) from None
    if as_json:
        print_json({"name": name, "path": str(path)})
    else:
        print_line(f"{name}: {path}")


@data.command(name="inspect")
def inspect_data(graph: GraphName, *, as_json: Json = False) -> None:
    """Describe a graph: sizes, class shares, homophily, splits."""
    from graphtemper.graph import datasets

    facts = datasets.inspect(graph)
    if as_json:
        print_json(facts)
        return
    console().print(
        table(str(graph), [{"property": name, "value": value} for name, value in facts.items()])
    )
