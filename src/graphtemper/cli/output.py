"""How the command line prints: for people on a terminal, quietly or as JSON for machines."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

if TYPE_CHECKING:
    from rich.console import Console

Json = Annotated[bool, Parameter(name="--json", negative="", help="Print JSON for machines.")]


def console(*, stderr: bool = False) -> Console:
    """Return a console; it knows about NO_COLOR, pipes and the width of the terminal."""
    from rich.console import Console

    return Console(stderr=stderr)


def say(text: str) -> None:
    """Print text that may hold a path: no markup, no wrapping."""
    console().print(text, soft_wrap=True, markup=False, highlight=False)


def tell(text: str, style: str | None = None) -> None:
    """Print a sentence, wrapped to the terminal, as it is."""
    console().print(text, markup=False, highlight=False, style=style)


def print_json(value: Any) -> None:
    """Print JSON on standard output."""
    print(json.dumps(value, indent=1))


def working(what: str, quiet: bool) -> Any:
    """Show a spinner on the terminal; nothing where a machine reads."""
    errors = console(stderr=True)
    return nullcontext() if quiet or not errors.is_terminal else errors.status(what)


@contextmanager
def progress(quiet: bool) -> Iterator[Callable[[str, int, int], None]]:
    """Give a function that shows (what, done, total) as a bar on the terminal, or nowhere."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn
    from rich.progress import TextColumn as Column

    errors = console(stderr=True)
    columns = (
        Column("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    off = quiet or not errors.is_terminal
    with Progress(*columns, console=errors, disable=off, transient=True) as bar:
        tasks: dict[str, Any] = {}

        def show(what: str, done: int, total: int) -> None:
            if what not in tasks:
                for task in tasks.values():
                    bar.update(task, visible=False)
                tasks[what] = bar.add_task(what, total=total)
            bar.update(tasks[what], completed=done, total=total)

        yield show


def print_rows(rows: dict[str, str]) -> None:
    """Print names and values in two columns, the second wrapped."""
    from rich.table import Table
    from rich.text import Text

    grid = Table.grid(padding=(0, 2))
    for name, value in rows.items():
        grid.add_row(Text(name), Text(value))
    console().print(grid)


def table(title: str, rows: list[dict[str, Any]]) -> Any:
    """Return a table of rows, with numbers to the right and texts as they are."""
    from rich.table import Table
    from rich.text import Text

    found = Table(title=Text(title), title_justify="left")
    for column, value in rows[0].items():
        number = isinstance(value, (int, float))
        found.add_column(
            column,
            justify="right" if number else "left",
            no_wrap=column in ("name", "here", "graph"),
        )
    for row in rows:
        found.add_row(*(Text(_cell(value)) for value in row.values()))
    return found


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.4g}" if isinstance(value, float) else str(value)
