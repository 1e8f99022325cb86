"""How a command ends: one table of exit codes, which hold also where nobody reads the output.

| code | meaning |
| --- | --- |
| 0 | fine |
| 2 | bad input, or a job that broke |
| 3 | a gate is closed, or more labels are needed |
| 4 | a snapshot cannot be used |
| 130 | interrupted |
"""

from __future__ import annotations

from collections.abc import Callable

from graphtemper.cli.output import discard_output

BAD_INPUT, CLOSED, UNUSABLE, INTERRUPTED = 2, 3, 4, 130


class End(SystemExit):
    """The end of a command with a code of its own; any other exit is that of a user's model."""


def end(code: int, show: Callable[[], None]) -> None:
    """Print with ``show``, and end with a code that is told even if the reader has left."""
    try:
        show()
        print(end="", flush=True)
    except BrokenPipeError:
        discard_output()  # as `head` does
        raise End(code) from None
    if code:
        raise End(code)
