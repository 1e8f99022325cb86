"""The compiled loops of ``_kernels.c``, if they were built; NumPy and SciPy are the fallback.

A wheel or an editable install has them where a C compiler was found (see ``hatch_build.py``). The
environment variable ``GRAPHTEMPER_ENGINE`` chooses: ``compiled`` insists on them, ``reference``
leaves them out, and by default they are used if they are there.

The sparse product and the binned statistics have the same bits in both engines, because sums have
the same order. The derivatives of the temperature's objective agree to about 1e-12, because NumPy
has an exponential of its own. Within an engine, bits depend on no number of threads.
"""

from __future__ import annotations

import os
from functools import cache
from types import ModuleType

from graphtemper import errors
from graphtemper.errors import InputError

VARIABLE = "GRAPHTEMPER_ENGINE"
# The version of the compiled functions that this package calls.
VERSION = 5


@cache
def kernels() -> ModuleType | None:
    """Return the compiled functions, or None if the reference is to be used."""
    wanted = os.environ.get(VARIABLE, "")
    if wanted not in ("", "compiled", "reference"):
        raise errors.choice(f"{VARIABLE} must be compiled or reference, not {wanted!r:.60}.")
    if wanted == "reference":
        return None
    try:
        from graphtemper._core import _kernels
    except ImportError:
        found = None
    else:
        found = _kernels if _kernels.VERSION == VERSION else None
    if found is None and wanted == "compiled":
        raise InputError(
            f"{VARIABLE} is compiled, but the compiled loops are not there; install graphtemper "
            "where a C compiler is present, or unset the variable."
        )
    return found


def engine() -> str:
    """Return the name of the engine in use.

    Examples
    --------
    >>> engine() in ("compiled", "reference")
    True
    """
    return "reference" if kernels() is None else "compiled"
