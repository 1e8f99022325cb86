"""How large a card is: it must stay small, and a build that cannot end says so at once."""

from __future__ import annotations

from graphtemper.errors import InputError

MAX_BYTES = 100_000
"""Largest card. It holds about 60 classes with the default atlas."""
# Least bytes that a number, an environment and everything else take in practice.
_NUMBER, _ENVIRONMENT, _OTHER = 8, 180, 3000


def fewest_bytes(num_classes: int, num_features: int, num_environments: int) -> int:
    """Return a lower bound on the size of a card, from its large parts.

    These are the class moments, a K x K matrix and a symmetric one, and the environments.

    Examples
    --------
    >>> fewest_bytes(60, 100, 132) < MAX_BYTES < fewest_bytes(80, 100, 132)
    True
    """
    matrices = num_classes**2 + num_classes * (num_classes + 1) // 2
    return (
        _NUMBER * (matrices + 12 * num_classes)
        + 4 * num_features // 3
        + _ENVIRONMENT * num_environments
        + _OTHER
    )


def check_size(num_classes: int, num_features: int, num_environments: int, size: int = 0) -> None:
    """Raise `InputError` if a card of these sizes, or of ``size`` bytes, would be too large."""
    least = size or fewest_bytes(num_classes, num_features, num_environments)
    if least > MAX_BYTES:
        raise InputError(
            f"the card would have {'' if size else 'at least '}{least} bytes with {num_classes} "
            f"classes, {num_features} feature columns and {num_environments} environments, over "
            f"the {MAX_BYTES} it may have; merge rare classes (60 fit with the default atlas), or "
            "use fewer shifts and compositions."
        )
