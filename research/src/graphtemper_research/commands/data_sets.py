"""`graphtemper data`: list, fetch and inspect graphs."""

from __future__ import annotations

from typing import Annotated, Any

from cyclopts import App, Parameter

from graphtemper.cli.options import Json
from graphtemper.cli.output import (
    console,
    print_json,
    print_line,
    print_rows,
    print_sentence,
    table,
)

data = App(name="data", help="List, fetch and inspect graphs.")


@data.command(name="list")
def list_data(*, as_json: Json = False) -> None:
    """List the known graphs, their licences, and which of them are on this machine."""
    from dataclasses import asdict

    from graphtemper_research.graphs import datasets

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
    from graphtemper_research.graphs import datasets

    path = datasets.fetch(name)
    if as_json:
        print_json({"name": name, "path": str(path)})
    else:
        print_line(f"{name}: {path}")


@data.command(name="inspect")
def inspect_data(
    graph: Annotated[
        str, Parameter(help="The graph: a name from `data list`, or the path of an .npz file.")
    ],
    *,
    as_json: Json = False,
) -> None:
    """Describe a graph: sizes, class shares, homophily, splits."""
    from graphtemper_research.graphs import datasets

    facts = datasets.inspect(graph)
    if as_json:
        print_json(facts)
        return
    print_rows(_in_words(facts))
    print_line(f"File: {facts['path']}")
    if facts.get("catalogued") is False:
        print_sentence("This is another graph than that of the catalogue.", "bold red")


# With more classes, only the largest and the smallest shares are shown.
_MANY_CLASSES = 8


def _in_words(facts: dict[str, Any]) -> dict[str, str]:
    """Return the facts about a graph as names and short sentences."""
    homophily, adjusted = facts["homophily"], facts["adjusted_homophily"]
    corrected = "" if adjusted is None else f"; {adjusted:.3f} corrected for chance"
    return {
        "Name": facts["name"] or "none",
        "Nodes": f"{facts['nodes']:,}, of which {facts['labelled']:,} have a label and "
        f"{facts['isolated']:,} have no neighbour",
        "Edges": f"{facts['edges']:,}; on average {facts['degree_mean']:.1f} neighbours per node, "
        f"at most {facts['degree_max']:,}",
        "Features": f"{facts['features']:,} columns, {facts['feature_storage']}; "
        f"{facts['feature_density']:.1%} of the entries are not zero",
        "Classes": _shares(facts["class_shares"]) if facts["labelled"] else "unknown: no labels",
        "Homophily": "unknown: no edge between labelled nodes"
        if homophily is None
        else f"{homophily:.3f} of the edges join equal labels{corrected}",
        "Splits": _splits(facts["splits"]),
    }


def _shares(shares: list[float]) -> str:
    listed = ", ".join(f"{share:.1%}" for share in shares)
    if len(shares) > _MANY_CLASSES:
        listed = f"the largest has {max(shares):.1%} of the labels, the smallest {min(shares):.1%}"
    return f"{len(shares)}: {listed}"


def _splits(splits: dict[str, Any]) -> str:
    """Return the number of splits and the sizes of the parts of the first."""
    count, parts = splits["count"], {k: v for k, v in splits.items() if k != "count"}
    if not count:
        return "none"
    sizes = ", ".join(f"{sizes[0]:,} {part}" for part, sizes in parts.items() if sizes)
    return f"{count}; the first has {sizes} nodes"
