"""Commands of the research package: loaded by entry point, or a sentence on how to install it."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import entry_points
from typing import Annotated, Any

from cyclopts import App, Parameter

from graphtemper.errors import MissingExtraError

GROUP = "graphtemper.commands"
# What the research package offers, with the first line of help where it is not installed.
COMMANDS = {
    "paper": "Reproduce one figure of the paper, or all: published beside measured.",
    "bench": "Compare calibrators and estimators under shift.",
    "explore": "Serve the theory with sliders, in a browser.",
}


def research_commands() -> list[App | Callable[..., Any]]:
    """Return the installed research commands, and stand-ins for those that are not installed."""
    installed = {entry.name: entry for entry in entry_points(group=GROUP)}
    return [
        installed[name].load() if name in installed else _stand_in(name, help_text)
        for name, help_text in COMMANDS.items()
    ]


def _stand_in(name: str, help_text: str) -> Callable[..., Any]:
    def command(*arguments: Annotated[str, Parameter(allow_leading_hyphen=True)]) -> None:
        raise MissingExtraError(
            f"graphtemper {name} is part of the research package; install it with "
            "'pip install ./research' from a checkout of graphtemper."
        )

    command.__name__ = name
    command.__doc__ = f"{help_text} (needs graphtemper-research)"
    return command
