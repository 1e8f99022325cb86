"""The command line: parse, call, print."""

from __future__ import annotations

import io
import os
import sys
import threading

from cyclopts import App, CycloptsError

from graphtemper._core.version import __version__
from graphtemper.cli.data import data
from graphtemper.cli.demo import demo
from graphtemper.cli.deploy import card, diagnose, recalibrate, suggest_labels
from graphtemper.cli.monitor import monitor
from graphtemper.cli.research import research_commands
from graphtemper.cli.scale import scale
from graphtemper.errors import GraphTemperError

BAD_INPUT, INTERRUPTED = 2, 130
STOPPED = "interrupted; no file is half written: run the same command again."

app = App(
    name="graphtemper",
    help="Honest confidence for graph neural networks on graphs that changed.",
    version=__version__,
    help_format="plaintext",
    suppress_keyboard_interrupt=False,  # `main` says what was kept
)
COMMANDS = (
    demo,
    card,
    recalibrate,
    diagnose,
    suggest_labels,
    monitor,
    scale,
    *research_commands(),
    data,
)
for command in COMMANDS:
    app.command(command)


def main() -> None:
    """Run the command line; bad input ends with one sentence and exit code 2."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    try:
        app(sys.argv[1:], exit_on_error=False, print_error=False, result_action="return_value")
    except (GraphTemperError, CycloptsError) as error:
        sentence = " ".join(str(error).split())
        print(f"graphtemper: {sentence}", file=sys.stderr)
        sys.exit(BAD_INPUT)
    except KeyboardInterrupt as error:
        print(f"graphtemper: {str(error) or STOPPED}", file=sys.stderr)
        if threading.active_count() > 1:
            # The interpreter would wait for a thread that is in the middle of its work.
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(INTERRUPTED)
        sys.exit(INTERRUPTED)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(0)
    except (OSError, ValueError, ArithmeticError, MemoryError, RecursionError) as error:
        if os.environ.get("GRAPHTEMPER_DEBUG"):
            raise
        sentence = " ".join(str(error).split()) or type(error).__name__
        print(f"graphtemper: {sentence} (set GRAPHTEMPER_DEBUG=1 to see where).", file=sys.stderr)
        sys.exit(BAD_INPUT)
