"""Predictors that come with the package: callables ``graph -> logits (N, K)``."""

from __future__ import annotations

from graphtemper.models.linear import SGC, SIGN, load

__all__ = ["SGC", "SIGN", "load"]
