"""The command line: parse, call, print."""

from __future__ import annotations

import io
import os
import sys
import threading
import warnings
from collections.abc import Callable
from functools import partial
from importlib.metadata import distributions
from typing import Any, Literal

from cyclopts import App, CycloptsError, Group

from graphtemper._core.printable import printable
from graphtemper._core.version import __version__
from graphtemper.cli.card import card
from graphtemper.cli.demo import demo
from graphtemper.cli.deploy import diagnose, recalibrate
from graphtemper.cli.ends import BAD_INPUT, INTERRUPTED, End
from graphtemper.cli.label import label
from graphtemper.cli.monitor import monitor
from graphtemper.cli.output import console, discard_output
from graphtemper.cli.research import research_command
from graphtemper.errors import GraphTemperError, GraphTemperWarning

STOPPED = "interrupted; no file is half written: run the same command again."

app = App(
    name="graphtemper",
    help="Honest confidence for graph neural networks on graphs that changed.",
    version=__version__,
    version_flags=("--version", "-V"),
    help_format="markdown",
    suppress_keyboard_interrupt=False,  # `main` says what was kept
)
# How `graphtemper --help` groups the commands.
COMMANDS: dict[str, tuple[App | Callable[..., Any], ...]] = {
    "Use": (card, recalibrate, label, diagnose, monitor),
    "Evidence": (demo, research_command("data"), research_command("bench")),
    "Research": (research_command("paper"), research_command("explore")),
}

OPTIONS = Group("Options", sort_key=len(COMMANDS))
# Commands come in their order, and the program's own options last.
for place, (title, commands) in enumerate(COMMANDS.items()):
    group = Group(title, sort_key=place)
    for position, command in enumerate(commands):
        if isinstance(command, App):
            command.group, command.sort_key = (group,), position
            app.command(command)
        else:
            app.command(command, group=group, sort_key=position)
app["--help"].group = app["--version"].group = (OPTIONS,)


@app.command(group=OPTIONS)
def completion(shell: Literal["bash", "zsh", "fish", "powershell"]) -> None:
    """Print a script that completes commands and options in a shell.

    For bash, add eval "$(graphtemper completion bash)" to ~/.bashrc.
    """
    print(app.generate_completion(prog_name="graphtemper", shell=shell))


@app.command(group=OPTIONS)
def info() -> None:
    """Print the system and the versions of all packages, for a bug report."""
    print(f"graphtemper {__version__}, Python {sys.version}, {sys.platform}")
    print(*sorted(f"{found.name} {found.version}" for found in distributions()), sep="\n")


def main() -> None:
    """Run the command line; bad input ends with one sentence and exit code 2."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    show = warnings.showwarning
    warnings.showwarning = partial(_tell, show)
    try:
        app(
            sys.argv[1:],
            console=console(),
            exit_on_error=False,
            print_error=False,
            result_action="return_value",
        )
        sys.stdout.flush()
    except (GraphTemperError, CycloptsError) as error:
        code = f" [{getattr(error, 'code', 'usage')}]" if "--json" in sys.argv else ""
        _fail(f"{error}{code}", BAD_INPUT)
    except End:
        raise
    except SystemExit as error:
        # Whatever code it chose: 0 would say that all is well, and 3 that a gate was checked.
        _fail(
            f"the model ended the program with exit({error.code!r:.40}) instead of returning "
            "logits; nothing was answered.",
            BAD_INPUT,
        )
    except KeyboardInterrupt as error:
        print(f"graphtemper: {printable(str(error)) or STOPPED}", file=sys.stderr)
        if threading.active_count() > 1:
            # The interpreter would wait for a thread that is in the middle of its work.
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(INTERRUPTED)
        sys.exit(INTERRUPTED)
    except BrokenPipeError:
        discard_output()  # the reader has left, as `head` does
        sys.exit(0)
    except (OSError, ValueError, ArithmeticError, MemoryError, RecursionError) as error:
        if os.environ.get("GRAPHTEMPER_DEBUG"):
            raise
        text = str(error) or type(error).__name__
        _fail(f"{text} (set GRAPHTEMPER_DEBUG=1 to see where).", BAD_INPUT)
    finally:
        warnings.showwarning = show


def _tell(other: Callable[..., None], text: Any, category: type[Warning], *where: Any) -> None:
    """Print our own warnings as errors are printed, without the line of code that gave them."""
    if issubclass(category, GraphTemperWarning):
        _say(f"warning: {text}")
    else:
        other(text, category, *where)


def _fail(message: str, code: int) -> None:
    _say(message)
    sys.exit(code)


def _say(message: str) -> None:
    print(f"graphtemper: {printable(' '.join(message.split()))}", file=sys.stderr)
