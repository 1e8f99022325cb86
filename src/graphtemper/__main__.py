"""Run the command line: ``graphtemper`` or ``python -m graphtemper``."""

import os
import sys


def main() -> None:
    """Load the commands and run one; an interruption while they load gives no traceback."""
    # `python -m` searches the working directory first, where a stray file could be run.
    if not sys.flags.safe_path and sys.path[:1] in ([""], [os.getcwd()]):
        del sys.path[0]
    try:
        from graphtemper import cli
    except KeyboardInterrupt:
        print("graphtemper: interrupted before it started.", file=sys.stderr)
        sys.exit(130)
    cli.main()


if __name__ == "__main__":
    main()
