"""What benches measured, as tables for the pages of the method: their own comparisons.

A page that explains a part of the method includes ``_generated/measured_NAME.md`` instead of
repeating numbers.
"""

from pathlib import Path

from graphtemper_research.harness.provenance import load

# The comparisons of a bench whose quantity begins like this; an empty text means all of them.
PARTS = {
    "homophily": ("atlas_bench", "SIGN, homophily, "),
    "natural_labels": ("natural_labels", ""),
    "natural_rule": ("natural_rule", ""),
    "sessions": ("sessions", ""),
    "monitoring": ("monitoring", ""),
}
ABSENT = "Not measured yet.\n"


def tables(source: Path) -> dict[str, str]:
    """Return Markdown by file name."""
    folder = source / "results" / "atlas"
    parts = {
        name: comparisons(folder / f"{file}.json", head) for name, (file, head) in PARTS.items()
    }
    return {f"measured_{name}": text for name, text in parts.items()}


def comparisons(path: Path, head: str) -> str:
    """Return what was measured, the goal if there is one, and the note, as a table."""
    if not path.is_file():
        return ABSENT
    found = load(path)["comparisons"]
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
