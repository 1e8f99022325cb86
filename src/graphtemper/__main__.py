"""Run the command line: ``graphtemper`` or ``python -m graphtemper``."""

import sys


def main() -> None:
    """Load the commands and run one; an interruption while they load gives no traceback."""
    try:
        from graphtemper import cli
    except KeyboardInterrupt:
        print("graphtemper: interrupted before it started.", file=sys.stderr)
        sys.exit(130)
    cli.main()


if __name__ == "__main__":
    main()
