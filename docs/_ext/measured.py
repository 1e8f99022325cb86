"""What benches measured, as tables for the pages of the method: their own comparisons.

A page that explains a part of the method includes ``_generated/measured_NAME.md`` instead of
repeating numbers.
"""

import json
from collections import defaultdict
from pathlib import Path
from statistics import mean

# The comparisons of a bench whose quantity begins like this; an empty text means all of them.
PARTS = {
    "class_shares": ("class_shares", ""),
    "sets": ("sets", ""),
    "homophily": ("atlas_bench", "SIGN, homophily, "),
    "natural_labels": ("natural_labels", ""),
    "natural_environments": ("natural_environments", ""),
    "natural_rule": ("natural_rule", ""),
    "sessions": ("sessions", ""),
    "per_node": ("per_node", ""),
    "outlook_signals": ("outlook_signals", ""),
    "monitoring": ("monitoring", ""),
}
ABSENT = "Not measured yet.\n"


def tables(source: Path) -> dict[str, str]:
    """Return Markdown by file name."""
    folder = source / "results" / "atlas"
    parts = {
        name: comparisons(folder / f"{file}.json", head) for name, (file, head) in PARTS.items()
    }
    parts["environments_families"] = environments(folder / "natural_environments.json")
    parts["per_node_methods"] = per_node(folder / "per_node.json")
    return {f"measured_{name}": text for name, text in parts.items()}


def comparisons(path: Path, head: str) -> str:
    """Return what was measured, the goal if there is one, and the note, as a table."""
    if not path.is_file():
        return ABSENT
    found = json.loads(path.read_text("utf-8"))["comparisons"]
    rows = [
        (item["quantity"].removeprefix(head).removeprefix("SIGN, ").removeprefix("SIGN: "), item)
        for item in found
        if item["quantity"].startswith(head)
    ]
    lines = [
        f"| {cell(name)} | {number(item['measured'])} | {goal(item)} | {cell(item['note'])} |"
        for name, item in rows
    ]
    return (
        "\n".join(["| | measured | goal | |", "| --- | ---: | --- | --- |", *lines, ""])
        if lines
        else ABSENT
    )


def cell(text: str) -> str:
    """Escape what would end a cell."""
    return text.replace("|", "\\|")


def number(value: float | None) -> str:
    """Return a number as a page shows it."""
    return "–" if value is None else f"{value:.3g}"


def goal(item: dict) -> str:
    """Return a bar, and whether it is missed."""
    if item["bar"] == "reported":
        return ""
    return item["bar"] + (", missed" if item["met"] is False else "")


def means(rows: list[dict], columns: dict[str, str], key: str) -> list[str]:
    """Return a line of a table for each value of a key, and one for their mean."""
    groups = defaultdict(list)
    for row in rows:
        groups[row[key]].append(row)
    found = {
        name: [
            mean(values) if (values := [r[c] for r in own if r.get(c) is not None]) else None
            for c in columns
        ]
        for name, own in sorted(groups.items())
    }
    whole = [
        mean(column) if None not in column else None for column in zip(*found.values(), strict=True)
    ]
    return [
        f"| {name} | " + " | ".join("" if x is None else f"{x:.3f}" for x in cells) + " |"
        for name, cells in [*found.items(), ("**mean**", whole)]
    ]


def environments(path: Path) -> str:
    """Return the mean ECE of each family with labelled environments."""
    columns = {
        "ece source-T": "source temperature",
        "ece mean gap": "mean gap alone",
        "ece no environment": "no environment",
        "ece one environment": "one",
        "ece all environments": "all",
        "ece constants left out": "constants left out",
        "ece one environment with wrong labels": "one of all with wrong labels",
        "ece past environments": "earlier ones only",
    }
    rows = [row for row in json.loads(path.read_text("utf-8"))["rows"] if row["model"] == "SIGN"]
    head = [
        "| family | " + " | ".join(columns.values()) + " |",
        "| --- |" + " ---: |" * len(columns),
    ]
    return "\n".join([*head, *means(rows, columns, "family"), ""])


def per_node(path: Path) -> str:
    """Return the mean scores of each method with temperatures per node."""
    columns = {"brier": "Brier", "nll": "NLL", "auroc": "AUROC of error detection", "ece": "ECE"}
    rows = [
        row
        for row in json.loads(path.read_text("utf-8"))["rows"]
        if (row["model"], row["shifts"], row["graph"]) == ("SIGN", "all shifts", "average")
    ]
    head = ["| | " + " | ".join(columns.values()) + " |", "| --- |" + " ---: |" * len(columns)]
    lines = [
        f"| {row['method']} | " + " | ".join(f"{row[key]:.4f}" for key in columns) + " |"
        for row in rows
    ]
    return "\n".join([*head, *lines, ""])
