"""The commands `data`, `paper`, `bench` and `explore`, which `graphtemper` finds by entry point."""

# Loads the commands here by their entry points, so that either package may be imported first.
import graphtemper.cli  # noqa: F401
