"""Run a module as it is, and check what it returns.

It runs in evaluation mode, without gradients, caches and randomness (`frozen`, `repeatable`). Its
output becomes class logits, also if it is probabilities (`as_logits`). `Agreement` compares the
logits of a wrapped module with those of the module itself on the user's own PyG ``Data``.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from graphtemper import errors
from graphtemper.errors import GraphTemperError
from graphtemper.graph.graph import Graph
from graphtemper.graph.pyg_conversion import is_hetero
from graphtemper.pyg.inputs import ADVICE

if TYPE_CHECKING:
    from torch_geometric.data import Data

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
        raise errors.not_logits(
            f"{name} returned {type(output).__name__}, not a tensor; pick the logits with an "
            "adapter, for instance adapter=lambda module, data: module(data.x, data.edge_index)[0]."
        )
    if not isinstance(output, torch.Tensor):
        raise errors.not_logits(f"{name} returned {type(output).__name__}, not a tensor; {ADVICE}.")
    shape = tuple(output.shape)
    one_column = len(shape) == 1 or (len(shape) == 2 and shape[1] == 1)
    if one_column != (returns == "binary"):
        advice = "is it a score of two classes? Then pass" if one_column else "leave out"
        raise errors.shape(
            f"{name} returned shape {shape}, {'one number' if one_column else 'several numbers'} "
            f'per node; {advice} returns="binary".'
        )
    if one_column:
        output = output.reshape(-1, 1)
        output = torch.cat([torch.zeros_like(output), output], dim=1)
        shape = (shape[0], 2)
    if len(shape) != 2 or shape[0] != num_nodes:
        raise errors.shape(
            f"{name} returned shape {shape} for {num_nodes} nodes; a predictor returns one row of "
            "class logits per node."
        )
    if not output.is_floating_point():
        raise errors.not_logits(
            f"{name} returned {output.dtype}, not real numbers; return the logits."
        )
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
        raise errors.not_finite(f"{name} returned a number that is not finite at node {bad[0]}.")
    if returns == "binary":
        return output.astype(np.float32)
    kind = _kind(output)
    if returns == "logits" != kind:
        raise errors.not_logits(
            f"{name} returns {kind}, not logits; pass returns={kind!r} to convert them."
        )
    if kind != returns:
        raise errors.not_logits(f"{name} does not return {returns} but {kind}; change returns=.")
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
        raise errors.not_logits(
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


Logits = NDArray[np.floating[Any]]

# Summing messages in another order moves float32 logits by about 1e-6 of their size per layer.
_TOLERANCE = 1e-4
_HALF_TOLERANCE = 5e-2


@dataclass(frozen=True)
class Agreement:
    """The outcome of `Predictor.check`: the wrapped module gives the module's own logits.

    Attributes
    ----------
    graph : Graph
        The data as a graph, without what the module does not read.
    dropped : tuple of str
        What the data holds and the graph does not, in the names of `Graph.from_pyg`.
    equal_predictions : float
        Fraction of nodes with equal predictions.
    largest_difference : float
        Largest difference between two logits.
    logits : (N, K) array
        The logits of the wrapped module on the graph.
    """

    graph: Graph = field(repr=False)
    dropped: tuple[str, ...]
    equal_predictions: float
    largest_difference: float
    logits: Logits = field(repr=False)


def tolerance(dtype: torch.dtype) -> float:
    """Return how far logits may differ, relative to their size, for weights of this type.

    Examples
    --------
    >>> tolerance(torch.float64)
    0.0001
    """
    return _HALF_TOLERANCE if torch.finfo(dtype).bits < 32 else _TOLERANCE


def differs(logits: Logits, others: Logits, relative: float) -> bool:
    """Return whether logits differ by more than rounding at any node.

    A node's logits are measured against their own size and that of an ordinary node, so that the
    large logits of a few hubs hide nothing.

    Examples
    --------
    >>> differs(np.array([[0.0, 1.0]]), np.array([[0.0, 1.00001]]), 1e-4)
    False
    """
    if logits.shape != others.shape:
        return True
    size = np.abs(logits).max(axis=1)
    return bool((np.abs(logits - others).max(axis=1) > relative * (size + np.median(size))).any())


def compare(logits: Logits, others: Logits) -> tuple[float, float]:
    """Return the fraction of equal predictions and the largest difference between two logits.

    Examples
    --------
    >>> compare(np.array([[0.0, 1.0], [2.0, 0.0]]), np.array([[0.0, 1.0], [2.0, 3.0]]))
    (0.5, 3.0)
    """
    equal = logits.argmax(axis=1) == others.argmax(axis=1)
    return float(equal.mean()), float(np.abs(logits - others).max())


def in_words(logits: Logits, others: Logits) -> str:
    """Return how two answers differ, as part of a sentence."""
    if logits.shape != others.shape:
        return f"its logits have shape {others.shape} and not {logits.shape}"
    equal, largest = compare(logits, others)
    return f"{equal:.1%} of its predictions are equal and its logits differ by up to {largest:.3g}"


def inputs_read(run: Callable[[Data], Logits], data: Data, relative: float) -> list[str]:
    """Return the things in ``data``, in words, without which ``run`` fails or answers differently.

    What a `Graph` carries is not tried.
    """
    logits, names = run(data), []
    for name, other in _reduced(data):
        try:
            changed = differs(logits, run(other), relative)
        except GraphTemperError:
            changed = True
        if changed:
            names.append(name)
    return names


# What a graph carries of a Data; taking it away would tell nothing about the conversion.
_CARRIED = ("x", "edge_index", "adj_t", "edge_weight", "edge_attr", "edge_type", "node_type")


def _reduced(data: Data) -> Iterator[tuple[str, Data]]:
    """Yield copies of the data that lack one thing each, with its name."""
    if is_hetero(data):
        return
    if data.x.dtype == torch.float64:
        rounded = data.clone()
        rounded.x = rounded.x.float()
        yield "features in float64", rounded
    for key in sorted(data.keys()):  # PyG lists them in any order
        if key not in _CARRIED:
            other = data.clone()
            del other[key]
            yield f"data.{key}", other


@contextlib.contextmanager
def frozen(module: torch.nn.Module) -> Iterator[None]:
    """Put a module into evaluation mode, without gradients or caches, and restore it afterwards.

    Examples
    --------
    >>> layer = torch.nn.Dropout()
    >>> with frozen(layer):
    ...     print(layer.training)
    False
    >>> layer.training
    True
    """
    parts = list(module.modules())
    training = [(part, part.training) for part in parts]
    caches = [
        (part, key, value)
        for part in parts
        if isinstance(vars(part).get("cached"), bool)
        for key, value in vars(part).items()
        if key == "cached" or key.startswith("_cached_")
    ]
    try:
        if any(flag for _, flag in training):
            module.eval()
        for part, key, _ in caches:
            setattr(part, key, False if key == "cached" else None)
        with torch.no_grad():
            yield
    finally:
        for part, flag in training:
            if part.training != flag:  # a module takes long to set an attribute
                part.training = flag
        for part, key, value in caches:
            setattr(part, key, value)


# Nodes and edges below which the threads of torch wait for each other longer than they work: on a
# busy machine of two cores a card took 46 seconds of processor time with two, and 3 with one.
_SMALL = 100_000


@contextlib.contextmanager
def one_thread(size: int) -> Iterator[None]:
    """Run torch on one thread where a graph is small, and restore the caller's setting.

    Examples
    --------
    >>> before = torch.get_num_threads()
    >>> with one_thread(100):
    ...     print(torch.get_num_threads())
    1
    >>> torch.get_num_threads() == before
    True
    """
    threads = torch.get_num_threads()
    if size > _SMALL or threads == 1:  # another call may have set it
        yield
        return
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def home(module: torch.nn.Module) -> tuple[torch.device, torch.dtype]:
    """Return the device and the floating type of the module's weights."""
    tensors = [*module.parameters(), *module.buffers()]
    devices = {tensor.device for tensor in tensors}
    if len(devices) > 1:
        listed = ", ".join(sorted(str(device) for device in devices))
        raise errors.predictor(f"the module's weights are on several devices ({listed}); {ADVICE}.")
    types = [tensor.dtype for tensor in tensors if tensor.is_floating_point()]
    return next(iter(devices), torch.device("cpu")), types[0] if types else torch.float32


def check_weights(module: torch.nn.Module) -> None:
    """Refuse weights that are NaN or have no values, by name."""
    named = [*module.named_parameters(), *module.named_buffers()]
    for name, tensor in named:
        # Lazy weights have no values before the first call, which must not set them here.
        if torch.nn.parameter.is_lazy(tensor):
            raise errors.not_fitted(
                f"the weight {name!r} has no values yet; train the module first."
            )
        if tensor.is_meta:
            raise errors.predictor(
                f"the weight {name!r} is on the device 'meta'; load its values first."
            )
        if tensor.is_floating_point() and tensor.isnan().any():
            raise errors.predictor(
                f"the weight {name!r} holds NaN; load or train the module again."
            )


def repeatable(
    run: Callable[[], NDArray[np.float64]], device: torch.device, name: str
) -> NDArray[np.float64]:
    """Return what ``run`` returns, or refuse it where it changes from call to call.

    A module whose dropout ignores evaluation mode answers differently every time. Only a module
    that draws random numbers is run twice to find out; torch's own random state is left as it was.

    Examples
    --------
    >>> repeatable(lambda: torch.rand(3).numpy(), torch.device("cpu"), "Net")
    Traceback (most recent call last):
    graphtemper.errors.InputError: Net answers differently each time; write ...
    """
    devices = [device] if device.type == "cuda" else []
    with torch.random.fork_rng(devices=devices):
        before = _random_states(devices)
        output = run()
        is_random = not all(map(torch.equal, before, _random_states(devices)))
        if is_random and not np.array_equal(output, run(), equal_nan=True):
            raise errors.other_model(
                f"{name} answers differently each time; write F.dropout(x, training=self.training)"
                ", and leave out whatever else is drawn at random in evaluation mode."
            )
    return output


def _random_states(devices: list[torch.device]) -> list[torch.Tensor]:
    return [torch.get_rng_state(), *(torch.cuda.get_rng_state(device) for device in devices)]
