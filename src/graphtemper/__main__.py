"""Run the command line with ``python -m graphtemper``."""

from graphtemper.cli import main

if __name__ == "__main__":
    main()
