"""The page of results: every figure of the paper, the leaderboard and the bars on speed."""

from __future__ import annotations

import os
from pathlib import Path

from graphtemper_research.harness.outcome import render_results, write_text
from graphtemper_research.leaderboard.board import NAME
from graphtemper_research.leaderboard.section import section as leaderboard
from graphtemper_research.numbers import costs
from graphtemper_research.numbers.tables import Results


def results_page(folder: Path, link: str = "") -> str:
    """Return the page of all outcomes in a folder, which the page finds at ``link``.

    Examples
    --------
    >>> results_page(Path("nowhere")).splitlines()[0]
    '# Results'
    """
    from graphtemper_research.paper import FIGURES

    results, page = Results(folder), render_results(folder, FIGURES, link)
    if (folder / f"{NAME}.json").is_file():
        page += leaderboard(results, link)
    if (folder / "benchmarks.json").is_file():
        measured = results.stamp("benchmarks")
        page += (
            "\n## Speed\n\n`make bench`: each ratio is measured in one run; peers and sizes "
            f"without a bar are in [benchmarks.md](benchmarks.md). {measured}\n\n"
            f"{costs.bars(results)}\n"
        )
    return page


def write_results(folder: Path, page: Path) -> None:
    """Write the page of all outcomes in a folder."""
    relative = os.path.relpath(folder, page.parent)
    link = "" if relative == "." else relative.replace(os.sep, "/") + "/"
    write_text(page, results_page(folder, link))
