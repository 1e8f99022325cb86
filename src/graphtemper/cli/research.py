"""Commands of the research package: loaded by entry point, or a sentence on how to install it."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import entry_points
from typing import Annotated, Any

from cyclopts import App, Parameter

from graphtemper.errors import MissingExtraError

ENTRY_POINTS = "graphtemper.commands"
# The commands of the research package, with their help where it is not installed.
HELP = {
    "data": "List, fetch and inspect graphs.",
    "paper": "Reproduce one figure of the paper, or all, with published and measured values.",
    "bench": "Compare calibrators and estimators under shift.",
    "explore": "Show the theory with sliders in a browser.",
}


def research_command(name: str) -> App | Callable[..., Any]:
    """Return a command of the research package, or a stand-in that says how to install it."""
    for entry in entry_points(group=ENTRY_POINTS, name=name):
        command: App | Callable[..., Any] = entry.load()
        return command
    return _stand_in(name)


def _stand_in(name: str) -> Callable[..., Any]:
    def command(*arguments: Annotated[str, Parameter(allow_leading_hyphen=True)]) -> None:
        raise MissingExtraError(
            f"graphtemper {name} is part of the research package; install it with "
            "'pip install ./research' from a checkout of graphtemper."
        )

    command.__name__ = name
    command.__doc__ = f"{HELP[name]} (needs graphtemper-research)"
    return command
