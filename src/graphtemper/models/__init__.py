"""Bundled predictors, and the protocol through which models declare fast passes.

A predictor is a callable ``graph -> logits (N, K)``.
"""

from __future__ import annotations

import os

from graphtemper import errors
from graphtemper.errors import InputError, VersionError
from graphtemper.models import linear, saved
from graphtemper.models.linear import SGC, SIGN, LinearGNN
from graphtemper.models.passes import Passes, ProjectedPasses, linear_passes
from graphtemper.models.predictor import Predictor

__all__ = [
    "SGC",
    "SIGN",
    "LinearGNN",
    "Passes",
    "Predictor",
    "ProjectedPasses",
    "linear_passes",
    "load",
]


def load(path: str | os.PathLike[str]) -> LinearGNN:
    """Read a model that its ``save`` method wrote; every field is validated.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from graphtemper import csbm
    >>> g = csbm.sample(300, degree=10, homophily=0.9, snr=1.0, seed=1)
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "model.npz"
    >>> model = SIGN().fit(g)
    >>> model.save(path)
    >>> print(abs(load(path)(g) - model(g)).max())
    0.0
    """
    form, header, arrays = saved.read(path)
    if form != linear.FORMAT:
        raise VersionError(f"{path}: unknown format {form!r}; expected {linear.FORMAT}.")
    try:
        return linear.from_arrays(header, arrays)
    except InputError as error:
        raise errors.damaged(f"{path}: {error}") from error
    except (KeyError, TypeError) as error:
        raise errors.damaged(f"{path}: the header is not that of a saved model.") from error
