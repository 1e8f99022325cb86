"""The section about speed in the page of results, made from what ``make bench`` measured."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from graphtemper import errors
from graphtemper_research.harness import provenance

FILE = "benchmarks.json"


def section(folder: Path) -> str:
    """Return the section about benchmarks with a bar, or nothing where nothing was measured.

    Examples
    --------
    >>> section(Path("nowhere"))
    ''
    """
    path = folder / FILE
    if not path.is_file():
        return ""
    text = "`make bench`: each ratio is measured in one run; peers and sizes without a bar are in "
    try:
        rows = table(row for row in rows_in(path) if row["bar"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise errors.damaged(f"{path} was not written by `make bench`; delete it.") from error
    return f"\n## Speed\n\n{text}[benchmarks.md](benchmarks.md).\n\n{rows}"


def rows_in(path: Path) -> list[dict[str, Any]]:
    """Return the rows of a file of ``make bench``."""
    rows: list[dict[str, Any]] = provenance.load(path)["rows"]
    return rows


def table(rows: Iterable[Mapping[str, Any]]) -> str:
    """Return rows of a benchmark as a Markdown table.

    Examples
    --------
    >>> row = {"what": "ECE", "size": "9 x 2", "seconds": 0.5, "peer": "theirs", "note": ""}
    >>> more = {"peer_seconds": 2.0, "ratio": 4.0, "peak_gigabytes": None, "bar": "", "met": None}
    >>> print(table([row | more]).splitlines()[-1])
    | ECE | 9 x 2 | 0.5 | theirs | 2 | 4.00 |  |  | - |
    """
    lines = [
        "| what | size | ours, s | peer | peer, s | ratio | peak, GB | bar | met |",
        "| --- | --- | ---: | --- | ---: | ---: | ---: | --- | --- |",
    ]
    for row in rows:
        size = row["size"] + (f"<br>*{row['note']}*" if row["note"] else "")
        cells = (
            row["what"],
            size,
            f"{row['seconds']:.3g}",
            row["peer"],
            "" if row["peer_seconds"] is None else f"{row['peer_seconds']:.3g}",
            "" if row["ratio"] is None else f"{row['ratio']:.2f}",
            "" if row["peak_gigabytes"] is None else f"{row['peak_gigabytes']:.2f}",
            row["bar"],
            {True: "yes", False: "no", None: "-"}[row["met"]],
        )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"
