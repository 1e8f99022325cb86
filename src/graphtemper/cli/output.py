"""How the command line prints: text for people, JSON for programs, progress on a terminal."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from functools import cache
from typing import TYPE_CHECKING, Any, Literal

from graphtemper._core.printable import printable

if TYPE_CHECKING:
    from rich.console import Console

# 0.25, +152%, 13/3/0, 0.45-0.63, inf, or a dash or nothing where there is no number.
_NUMBER = re.compile(r"[-+]?[\d.]+[\d.%/e+-]*|[-+]?inf|-|")

STYLES = {"trust": "bold green", "caution": "bold yellow", "abstain": "bold red"}
"""Terminal styles of the verdicts."""


def console(*, stderr: bool = False) -> Console:
    """Return a console, which respects NO_COLOR, pipes and the width of the terminal."""
    return _console_class()(stderr=stderr)


@cache
def _console_class() -> type[Console]:
    from rich.console import Console
    from rich.segment import Segment

    class SafeConsole(Console):
        """A console that prints harmful characters of names as escapes.

        It leaves a closed pipe to `main`, which exits with 0.
        """

        def on_broken_pipe(self) -> None:
            raise BrokenPipeError

        def render(self, *arguments: Any, **options: Any) -> Iterator[Segment]:
            for text, style, control in super().render(*arguments, **options):
                yield Segment(text if control else printable(text), style, control)

    return SafeConsole


def discard_output() -> None:
    """Send further output nowhere: Python flushes once more at exit, and that must succeed."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def print_line(text: str) -> None:
    """Print text that may contain a path, without markup and without wrapping."""
    console().print(text, soft_wrap=True, markup=False, highlight=False)


def print_sentence(text: str, style: str | None = None) -> None:
    """Print a sentence without markup, wrapped to the terminal."""
    console().print(text, markup=False, highlight=False, style=style)


def print_json(value: Any) -> None:
    """Print JSON on standard output."""
    print(json.dumps(value, indent=1, allow_nan=False))


def print_closed(closed: Mapping[str, str]) -> None:
    """Name closed gates with their reasons on standard error, also next to JSON."""
    for gate, reason in closed.items():
        print(f"graphtemper: gate closed: {printable(f'{gate}: {reason}')}.", file=sys.stderr)


def working(what: str, quiet: bool) -> Any:
    """Return a context that shows a spinner, unless ``quiet`` or not on a terminal."""
    errors = console(stderr=True)
    return nullcontext() if quiet or not errors.is_terminal else errors.status(what)


@contextmanager
def progress(quiet: bool, *, one_bar: bool = False) -> Iterator[Callable[[str, int, int], None]]:
    """Yield a function that shows (task, done, total) as a progress bar on a terminal.

    With ``one_bar`` the names are stages of one task, and the remaining time is that of all.
    """
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
    # Stages of one task may each take longer than the 30 s that speed is usually averaged over.
    period = 86_400.0 if one_bar else 30.0
    with Progress(
        *columns, console=errors, disable=off, transient=True, speed_estimate_period=period
    ) as bar:
        tasks: dict[str, Any] = {}

        def show(name: str, done: int, total: int) -> None:
            key = "" if one_bar else name
            if key not in tasks:
                for task in tasks.values():
                    bar.update(task, visible=False)
                tasks[key] = bar.add_task(name, total=total)
            bar.update(tasks[key], description=name, completed=done, total=total)

        yield show


def print_rows(rows: dict[str, str]) -> None:
    """Print names and values in two columns, the second one wrapped between words."""
    indent = max(map(len, rows)) + 2
    for name, value in rows.items():
        _print_wrapped(name.ljust(indent) + value, indent)


def print_reasons(reasons: Iterable[object]) -> None:
    """Print sentences as a list, each wrapped to the terminal and indented."""
    for reason in reasons:
        _print_wrapped(f"- {reason}", 2)


def _print_wrapped(text: str, indent: int) -> None:
    from textwrap import TextWrapper

    wrapper = TextWrapper(max(console().width, indent + 20), subsequent_indent=" " * indent)
    wrapper.break_long_words = wrapper.break_on_hyphens = False
    print_line(wrapper.fill(text))


def table(title: str, rows: list[dict[str, Any]]) -> Any:
    """Return rows as a table in which numbers and names are never cut, and text is wrapped."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    grid = Table(title=Text(title, style="bold not italic"), title_justify="left", box=SIMPLE_HEAD)
    grid.show_edge, grid.pad_edge, grid.collapse_padding = False, False, True
    cells = {name: [_cell(row.get(name)) for row in rows] for name in rows[0]}
    for name, values in cells.items():
        number = all(map(_NUMBER.fullmatch, values))
        whole = number or not any(" " in value for value in values)
        justify: Literal["right", "left"] = "right" if number else "left"
        # A heading of several words takes one line each, so that it is no wider than its numbers.
        head = Text(name.replace(" ", "\n") if number else name)
        grid.add_column(head, justify=justify, no_wrap=whole, overflow="fold")
    for row in zip(*cells.values(), strict=True):
        grid.add_row(*map(Text, row))
    return grid


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.4g}" if isinstance(value, float) else str(value)
