"""The source card: the atlas of known shifts, what is learned from it, and its file format."""

from __future__ import annotations

from graphtemper.card.card import SourceCard

__all__ = ["SourceCard"]
