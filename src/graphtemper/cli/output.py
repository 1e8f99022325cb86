"""How the command line prints: for people on a terminal, quietly or as JSON for machines."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

if TYPE_CHECKING:
    from rich.console import Console

# 0.25, +152%, 13/3/0, 0.45-0.63, inf, or a dash or nothing where there is no number.
_NUMBER = re.compile(r"[-+]?[\d.]+[\d.%/e+-]*|[-+]?inf|-|")
Json = Annotated[bool, Parameter(name="--json", negative="", help="Print JSON for machines.")]

STYLES = {"trust": "bold green", "caution": "bold yellow", "abstain": "bold red"}
"""How verdicts look."""


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


def print_reasons(reasons: Iterable[object]) -> None:
    """Print sentences as a list, each wrapped to the terminal under its own first word."""
    from textwrap import fill

    for reason in reasons:
        width = max(console().width, 20)
        say(fill(str(reason), width, initial_indent="- ", subsequent_indent="  "))


def table(title: str, rows: list[dict[str, Any]]) -> Any:
    """Return a table of rows: numbers whole and to the right, texts folded where they must be.

    Nothing is cut off. Where a table is wider than the terminal, headings of numbers take a line a
    word before texts are folded.
    """
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    cells = {name: [_cell(row.get(name)) for row in rows] for name in rows[0]}
    widths = (max(map(len, (name, *texts))) + 2 for name, texts in cells.items())
    narrow = sum(widths) > console().width
    found = Table(
        title=Text(title, style="bold not italic"),
        title_justify="left",
        box=SIMPLE_HEAD,
        show_edge=False,
        pad_edge=False,
        collapse_padding=True,
    )
    numbers = {name for name, texts in cells.items() if all(map(_NUMBER.fullmatch, texts))}
    heads = {
        name: name.replace(" ", "\n") if narrow and name in numbers else name for name in cells
    }
    tallest = max(head.count("\n") for head in heads.values())
    for name, head in heads.items():
        number = name in numbers
        found.add_column(
            Text("\n" * (tallest - head.count("\n")) + head),  # headings stand on the line
            justify="right" if number else "left",
            no_wrap=number or name in ("name", "here", "graph"),
            overflow="fold",
        )
    for row in zip(*cells.values(), strict=True):
        found.add_row(*map(Text, row))
    return found


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.4g}" if isinstance(value, float) else str(value)
