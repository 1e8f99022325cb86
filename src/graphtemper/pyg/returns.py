"""What a module returns: class logits, or probabilities that ``returns`` says to convert."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from graphtemper.errors import InputError
from graphtemper.pyg.signature import ADVICE

Returns = Literal["logits", "probabilities", "log-probabilities", "binary"]


def checked_output(
    output: Any, num_nodes: int, name: str, returns: Returns = "logits"
) -> NDArray[np.float64]:
    """Return a module's output for some nodes as an array, after checking type and shape.

    A binary score g, one per node, becomes the two columns 0 and g.

    Examples
    --------
    >>> checked_output(torch.tensor([[0.5], [-2.0]]), 2, "Net", "binary").tolist()
    [[0.0, 0.5], [0.0, -2.0]]
    """
    if isinstance(output, tuple | list | dict):
        raise InputError(
            f"{name} returned {type(output).__name__}, not a tensor; pick the logits with an "
            "adapter, for instance adapter=lambda module, data: module(data.x, data.edge_index)[0]."
        )
    if not isinstance(output, torch.Tensor):
        raise InputError(f"{name} returned {type(output).__name__}, not a tensor; {ADVICE}.")
    shape = tuple(output.shape)
    one_column = len(shape) == 1 or (len(shape) == 2 and shape[1] == 1)
    if one_column != (returns == "binary"):
        advice = "is it a score of two classes? Then pass" if one_column else "leave out"
        raise InputError(
            f"{name} returned shape {shape}, {'one number' if one_column else 'several numbers'} "
            f'per node; {advice} returns="binary".'
        )
    if one_column:
        output = output.reshape(-1, 1)
        output = torch.cat([torch.zeros_like(output), output], dim=1)
        shape = (shape[0], 2)
    if len(shape) != 2 or shape[0] != num_nodes:
        raise InputError(
            f"{name} returned shape {shape} for {num_nodes} nodes; a predictor returns one row of "
            "class logits per node."
        )
    if not output.is_floating_point():
        raise InputError(f"{name} returned {output.dtype}, not real numbers; return the logits.")
    array: NDArray[np.float64] = output.detach().to("cpu", torch.float64).numpy()
    return array


def as_logits(output: NDArray[np.float64], returns: Returns, name: str) -> NDArray[np.float32]:
    """Return the whole output as logits, after checking that it is what ``returns`` says.

    Examples
    --------
    >>> as_logits(np.array([[0.25, 0.75], [0.5, 0.5]]), "logits", "Net")
    Traceback (most recent call last):
    graphtemper.errors.InputError: Net returns probabilities, not logits; pass returns=...
    """
    bad = np.flatnonzero(~np.isfinite(output).all(axis=1))
    if bad.size:
        raise InputError(f"{name} returned a number that is not finite at node {bad[0]}.")
    if returns == "binary":
        return output.astype(np.float32)
    kind = _kind(output)
    if returns == "logits" != kind:
        raise InputError(
            f"{name} returns {kind}, not logits; pass returns={kind!r} to convert them."
        )
    if kind != returns:
        raise InputError(f"{name} does not return {returns} but {kind}; change returns=.")
    if returns == "probabilities":
        output = np.log(np.maximum(output, np.finfo(np.float32).tiny))
    return output.astype(np.float32)


def check_binary(logits: NDArray[np.float32], name: str) -> None:
    """Raise `InputError` if the scores of a trained binary module are probabilities, not logits.

    Examples
    --------
    >>> check_binary(np.array([[0.0, -3.0], [0.0, 0.5]]), "Net")
    """
    score = logits[:, 1]
    if ((score >= 0.0) & (score <= 1.0)).all():
        raise InputError(
            f"{name} returns numbers between 0 and 1 only, which are probabilities and not a "
            "score; return what is before the sigmoid."
        )


def _kind(output: NDArray[np.float64]) -> Returns:
    """Distinguish logits, probabilities and log-probabilities by the sums of all rows.

    The tolerance is that of half precision: rows of logits do not all sum to one.
    """
    tolerance = 5e-3
    if (output >= 0).all() and np.abs(output.sum(axis=1) - 1.0).max() < tolerance:
        return "probabilities"
    if (output <= 0).all() and np.abs(np.exp(output).sum(axis=1) - 1.0).max() < tolerance:
        return "log-probabilities"
    return "logits"
