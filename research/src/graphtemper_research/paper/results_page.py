"""The page of results: every figure of the paper, the leaderboard and the bars on speed."""

from __future__ import annotations

import os
from pathlib import Path

from graphtemper_research.harness import speed
from graphtemper_research.harness.outcome import render_results, write_text
from graphtemper_research.leaderboard.section import section as leaderboard


def write_results(folder: Path, page: Path) -> None:
    """Write the Markdown page of all outcomes in ``folder``.

    Examples
    --------
    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> write_results(folder, folder / "results.md")
    >>> (folder / "results.md").read_text().splitlines()[0]
    '# Results'
    """
    from graphtemper_research.paper import FIGURES

    relative = os.path.relpath(folder, page.parent)
    link = "" if relative == "." else relative.replace(os.sep, "/") + "/"
    parts = (
        render_results(folder, FIGURES, link),
        leaderboard(folder, link),
        speed.section(folder),
    )
    write_text(page, "".join(parts))
