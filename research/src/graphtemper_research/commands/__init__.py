"""Commands that this package adds to the graphtemper command line."""
