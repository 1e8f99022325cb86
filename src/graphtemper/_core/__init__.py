"""Primitives that every package shares: array checks, threads, random streams, roots, files."""
