"""A progress bar for long work, on a terminal or in a notebook."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

Progress = Callable[[int, int], None]
"""Called with the number of finished steps and the number of all."""


@contextmanager
def shown(progress: Progress | bool | None, description: str) -> Iterator[Progress | None]:
    """Yield a function to report progress with, or None if none is to be shown.

    Parameters
    ----------
    progress
        A function is yielded as it is. None shows a bar on standard error if that is a terminal or
        a notebook, False shows nothing, and True shows a bar in any case.
    description
        The text in front of the bar.
    """
    if callable(progress):
        yield progress
        return
    if progress is False:
        yield None
        return
    from rich.console import Console

    console = Console(stderr=True)
    if not (progress or console.is_terminal or console.is_jupyter):
        yield None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    with Bar(*columns, console=console) as bar:
        task = bar.add_task(description, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
