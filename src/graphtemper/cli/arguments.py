"""Turn command-line arguments into graphs, predictors and nodes."""

from __future__ import annotations

import importlib.util
import os
import sys
from importlib.machinery import PathFinder
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphtemper import errors, models
from graphtemper._core.safe_reading import read_lines
from graphtemper.errors import GraphTemperError
from graphtemper.graph.graph import Graph
from graphtemper.models.predictor import Predictor

SPLITS = ("train", "val", "test")


def resolve(spec: str) -> Predictor:
    """Return the predictor that a specification names.

    Parameters
    ----------
    spec
        The path of a saved model (``.npz``), or ``package.module:callable``, which may be in the
        working directory; modules next to it must be imported at its top. The callable is the
        predictor itself, ``graph -> logits (N, K)``; a class, or a function that returns a
        predictor, is refused.

    Examples
    --------
    >>> resolve("math:no_such_name")
    Traceback (most recent call last):
    graphtemper.errors.InputError: the module 'math' has no 'no_such_name'.
    """
    if spec.endswith(".npz") or (":" not in spec and os.path.isfile(spec)):
        return models.load(spec)
    module, colon, name = spec.partition(":")
    if not (colon and module and name):
        raise errors.predictor(
            f"cannot read the predictor {spec!r}; write package.module:callable, or the path of a "
            "saved model (.npz)."
        )
    try:
        predictor = attrgetter(name)(_import(module))
    except AttributeError as error:
        raise errors.predictor(f"the module {module!r} has no {name!r}.") from error
    _check_callable(predictor, spec)
    return predictor if hasattr(predictor, "fast_passes") else _guarded(predictor, spec)


def _import(module: str) -> Any:
    """Import a module, which may be in the working directory.

    Only the named module is searched there first; what it imports is searched there last, and
    nothing is once it is loaded. A file of the working directory cannot take the place of a module
    of the standard library or of an installed one.
    """
    folder, top = os.getcwd(), module.partition(".")[0]
    added = folder not in sys.path
    if added:
        sys.path.append(folder)
    try:
        spec = PathFinder.find_spec(top, [folder]) if top not in sys.modules else None
        if spec is not None and spec.origin is not None and spec.loader is not None:
            loaded = sys.modules[top] = importlib.util.module_from_spec(spec)
            try:
                spec.loader.exec_module(loaded)
            except BaseException:
                del sys.modules[top]
                raise
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is not None and (module + ".").startswith(error.name + "."):
            raise errors.predictor(
                f"there is no module {module!r}; run from the folder that holds it, or install it."
            ) from error
        raise errors.predictor(f"importing {module!r} needs {error.name!r}; install it.") from error
    except (Exception, SystemExit) as error:
        raise errors.predictor(f"importing {module!r} failed: {_one_line(error)}.") from error
    finally:
        if added:
            sys.path.remove(folder)


def _check_callable(value: Any, spec: str) -> None:
    if isinstance(value, type):
        raise errors.predictor(
            f"{spec} is a class; name a trained instance, a callable graph -> logits."
        )
    if not callable(value):
        raise errors.predictor(
            f"{spec} is a {type(value).__name__}, which cannot be called; name a callable "
            "graph -> logits."
        )
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.nn.Module):
        raise errors.predictor(f"{spec} is a torch module; wrap it with graphtemper.pyg.predictor.")


def _guarded(predictor: Any, spec: str) -> Predictor:
    """Wrap a predictor so that its own errors become one sentence that names it."""

    def run(graph: Graph) -> Any:
        try:
            return predictor(graph)
        except GraphTemperError:
            raise
        except Exception as error:
            if os.environ.get("GRAPHTEMPER_DEBUG"):
                raise
            raise errors.predictor(
                f"the predictor {spec} failed: {_one_line(error)} (set GRAPHTEMPER_DEBUG=1 to see "
                "where)."
            ) from error

    run.__name__ = spec
    return run


def _one_line(error: BaseException) -> str:
    text = " ".join(str(error).split()).rstrip(".")
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def choose_nodes(
    graph: Graph,
    nodes: str | os.PathLike[str] | None = None,
    split: str | None = None,
    *,
    labelled: bool = False,
) -> NDArray[np.int64] | None:
    """Return the nodes that a file or a stored split names, or None if neither is given.

    Parameters
    ----------
    graph
        The graph they belong to.
    nodes
        A text file with one node index per line.
    split
        ``train``, ``val`` or ``test`` and the number of the stored split, such as ``val:0``.
    labelled
        Keep only the nodes of the split that have a label.
    """
    if nodes is not None and split is not None:
        raise errors.conflict("choose the nodes by a file or by a split, not by both.")
    if nodes is not None:
        return read_nodes(Path(nodes))
    if split is None:
        return None
    part, _, number = split.partition(":")
    if part not in SPLITS or not (number or "0").isdecimal():
        raise errors.choice(
            f"cannot read the split {split!r}; write train, val or test, such as val:0."
        )
    masks = getattr(graph, f"{part}_masks")
    count, index = 0 if masks is None else len(masks), int(number or "0")
    if index >= count:
        raise errors.choice(f"the graph has {count} {part} splits, so there is no {part}:{index}.")
    mask = masks[index]
    if labelled and graph.labels is not None:
        mask = mask & (graph.labels >= 0)
    return np.flatnonzero(mask)


def read_nodes(path: Path) -> NDArray[np.int64]:
    """Read one node per line; whether a graph has these nodes is checked with the graph."""
    nodes: dict[int, None] = {}
    for number, line in enumerate(read_lines(path, "the list of nodes"), start=1):
        text = line.strip()
        if not text:
            continue
        if not text.isdecimal() or len(text) > 18 or int(text) in nodes:
            raise errors.table(
                f"{path}, line {number}: {text[:40]!r} is not a node, or one that was named "
                "before; write one index per line."
            )
        nodes[int(text)] = None
    if not nodes:
        raise errors.table(f"{path} names no node; write one index per line.")
    return np.array(list(nodes), dtype=np.int64)
