"""Features that a module reads through matrices only, multiplied before they change.

The first operation of many layers on the features X is a linear map (GCN, GAT, an MLP). Such a
module depends on X only through the products :math:`X W^T`, so halves of the columns and noise can
be applied to these: noise E changes the products by :math:`E W^T`, whose rows are Gaussian with a
small covariance, and no array of the size of X is made per pass. Other layers first add up rows of
X along the edges (SAGE, GIN, SGC). Sums of rows and products with W commute, so these sums are
taken of the products too, which have fewer columns.

Which matrices a module uses is not read from its code. It is called on a `Deferred` tensor, which
has the shape of X, multiplies on request, notes sums of rows, and refuses every other operation on
its values.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from graphtemper._core.checks import FloatArray
from graphtemper.errors import GraphTemperError
from graphtemper.graph.graph import Graph
from graphtemper.models.passes import ForwardPasses, ProjectedPasses
from graphtemper.pyg.inputs import Inputs

Product = Callable[[torch.Tensor], torch.Tensor]
MakeInputs = Callable[[torch.device, torch.dtype], Inputs]
Float32 = NDArray[np.float32]
Key = tuple[int, tuple[int, ...], tuple[int, ...]]
_PRODUCTS = (torch.matmul, torch.mm, torch.Tensor.matmul, torch.Tensor.mm, torch.Tensor.__matmul__)
_TIMES = (torch.mul, torch.Tensor.mul, torch.Tensor.__mul__, torch.Tensor.__rmul__)
_DIVIDED = (torch.div, torch.Tensor.div, torch.Tensor.__truediv__)
_SUMS = (torch.add, torch.Tensor.add, torch.Tensor.__add__, torch.Tensor.__radd__)
_METADATA = {
    torch.Tensor.size,
    torch.Tensor.dim,
    torch.Tensor.numel,
    torch.Tensor.is_floating_point,
    torch.Tensor.__len__,
    *(
        getattr(torch.Tensor, name).__get__
        for name in ("shape", "dtype", "device", "ndim", "is_sparse", "layout", "is_cuda")
    ),
}
# Wider products than this are not worth a factor of their covariance.
_WIDEST = 2048


class NotLinearError(Exception):
    """The module does something else with the features than multiply them with a matrix."""


class Deferred(torch.Tensor):
    """A stand-in for features (N, F), or for weighted sums of their rows.

    It can be multiplied with a matrix, its rows can be selected, weighted and added up, and nothing
    else.
    """

    _product: Product

    @staticmethod
    def of(shape: tuple[int, int], dtype: torch.dtype, product: Product) -> Deferred:
        """Return a stand-in whose product with W^T is ``product(W)``."""
        made: Deferred = torch.Tensor._make_wrapper_subclass(Deferred, shape, dtype=dtype)
        made._product = product
        return made

    @classmethod
    def __torch_function__(
        cls, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Multiply, tell the shape, ignore dropout in evaluation mode; refuse anything else."""
        named = kwargs or {}
        if func is torch.nn.functional.linear and isinstance(args[0], Deferred):
            weight, bias = [*args[1:], None][:2]
            bias = named.get("bias", bias)
            product = args[0]._product(weight)
            return product if bias is None else product + bias
        if func in _PRODUCTS and isinstance(args[0], Deferred) and args[1].dim() == 2:
            return args[0]._product(args[1].t())
        if func is torch.nn.functional.dropout and not named.get("training", True):
            return args[0]
        if func in _METADATA:
            with torch._C.DisableTorchFunctionSubclass():
                return func(*args, **named)
        found = None if named else _rows(func, args)
        if found is None:
            raise NotLinearError(getattr(func, "__name__", str(func)))
        return found

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Refuse whatever reaches the values in another way."""
        raise NotLinearError(str(func))

    def changed(self, num_rows: int, change: Product) -> Deferred:
        """Return a stand-in for other rows, whose product is a change of this one's product."""
        product, width = self._product, self.shape[1]

        def of_products(weight: torch.Tensor) -> torch.Tensor:
            # More columns than the features have would make sums of rows slower, not faster.
            if len(weight) > width:
                raise NotLinearError("a matrix that is wider than the features")
            return change(product(weight))

        return Deferred.of((num_rows, width), self.dtype, of_products)


def _rows(func: Any, args: Any) -> Any:
    """Return the result of an operation that selects, weights or adds rows; None for any other."""
    first, second = [*args, None][:2]
    if func is torch.Tensor.index_select and isinstance(first, Deferred) and second in (0, -2):
        index = args[2]
        return first.changed(len(index), lambda product: product.index_select(0, index))
    if func is torch.Tensor.expand_as and isinstance(second, Deferred):
        return first.expand(second.shape)
    if func in (torch.Tensor.new_ones, torch.Tensor.new_zeros):
        size = tuple(args[1:]) if isinstance(second, int) else tuple(second)
        if func is torch.Tensor.new_ones:
            return torch.ones(size, dtype=first.dtype)
        if len(size) != 2 or size[1] != first.shape[1]:
            return torch.zeros(size, dtype=first.dtype)
        return Deferred.of(size, first.dtype, lambda weight: torch.zeros(size[0], len(weight)))
    if func is torch.Tensor.scatter_add_ and all(isinstance(args[i], Deferred) for i in (0, 3)):
        index = _column(args[2])
        return None if second != 0 or index is None else _gathered(first, index, args[3])
    if func in _SUMS and isinstance(first, Deferred) and isinstance(second, Deferred):
        other = second._product if first.shape == second.shape else None
        product = first._product
        shape = (len(first), first.shape[1])
        return other and Deferred.of(
            shape, first.dtype, lambda weight: product(weight) + other(weight)
        )
    if func in _TIMES + _DIVIDED:
        if not isinstance(first, Deferred):
            first, second = (second, first) if func in _TIMES else (None, None)
        scale = None if isinstance(second, Deferred) else _column(second)
        fits = not torch.is_tensor(scale) or scale.numel() in (1, len(first))
        if scale is None or not isinstance(first, Deferred) or not fits:
            return None
        if func in _TIMES:
            return first.changed(len(first), lambda product: product * scale)
        return first.changed(len(first), lambda product: product / scale)
    return None


def _gathered(total: Deferred, index: torch.Tensor, rows: Deferred) -> Deferred:
    """Add rows to those of another stand-in, in place as ``scatter_add_`` does."""
    before, added = total._product, rows._product

    def both(weight: torch.Tensor) -> torch.Tensor:
        product = added(weight)
        return before(weight).scatter_add(0, index.expand(product.shape), product)

    total._product = both
    return total


def _column(values: Any) -> Any:
    """Return a number, or what one column of equal columns holds; None for anything else."""
    if isinstance(values, int | float) or (torch.is_tensor(values) and values.numel() == 1):
        return values
    if not torch.is_tensor(values) or values.dim() != 2:
        return None
    same = values.shape[1] == 1 or values.stride(1) == 0
    return values[:, :1] if same else None


@dataclass(eq=False)
class LinearMaps:
    """The matrices (F, H) through which a module reads the features, as far as it showed them.

    Only weights of the module count: another matrix may differ from call to call.
    """

    module: torch.nn.Module
    known: dict[Key, Float32] = field(default_factory=dict)
    refused: bool = False

    def __reduce__(self) -> tuple[type[LinearMaps], tuple[torch.nn.Module]]:
        """Copy and send the module alone: keys are places in the memory of this process."""
        return LinearMaps, (self.module,)

    def key(self, weight: torch.Tensor) -> Key:
        """Return the key of a matrix, W of X W^T, after noting it."""
        key = (weight.data_ptr(), tuple(weight.shape), weight.stride())
        if key not in self.known:
            own = {item.data_ptr() for item in self.module.parameters()}
            width = sum(matrix.shape[1] for matrix in self.known.values()) + len(weight)
            if key[0] not in own or width > _WIDEST:
                raise NotLinearError("a matrix that is no weight of the module")
            self.known[key] = weight.detach().numpy().T
        return key


class Wrapped(Protocol):
    """A wrapped module, `graphtemper.pyg.wrap.Predictor`."""

    def __call__(self, graph: Graph) -> Float32:
        """Return logits (N, K) for every node."""

    @property
    def maps(self) -> LinearMaps:
        """The matrices through which it reads features."""

    def logits_of(self, make: MakeInputs, graph: Graph) -> Float32:
        """Return the logits of every node of some inputs, made of a graph."""


@dataclass(frozen=True, eq=False)
class ModulePasses:
    """The passes of a module that reads features through some of its matrices; see `Passes`.

    On graphs with more than features and edges, and if the module turns out to do something else
    with the features, it is called on changed features.
    """

    predictor: Wrapped
    projected: ProjectedPasses
    thread_safe: bool = False
    cheap: bool = False

    def run(self, graph: Graph, **changes: Any) -> FloatArray:
        """See `Passes.run`."""
        if graph.is_plain and not self.predictor.maps.refused:
            try:
                return self.projected.run(graph, **changes)
            except Exception as error:
                if not isinstance(error.__cause__ or error, NotLinearError):
                    raise
                self.predictor.maps.refused = True
        return ForwardPasses(self.predictor).run(graph, **changes)


def passes_through_maps(predictor: Wrapped, num_features: int | None) -> ModulePasses | None:
    """Return passes through the module's first matrices; None if it is not known to have any.

    Through which matrices it reads features is found by a call on a tiny graph.
    """
    maps = predictor.maps
    if not maps.known and not maps.refused and num_features is not None:
        path = np.array([[0, 1], [1, 2], [2, 3], [3, 4], [4, 5]], dtype=np.int32)
        tiny = Graph(features=np.zeros((6, num_features), np.float32), edges=path)

        def zeros(key: Key) -> Float32:
            return np.zeros((6, maps.known[key].shape[1]), np.float32)

        try:
            _logits(predictor, tiny, zeros)
        except (GraphTemperError, NotLinearError):  # or a module that does not run on this graph
            maps.refused = True
    if maps.refused or not maps.known:
        return None
    weights = np.ascontiguousarray(np.hstack(list(maps.known.values())))
    finish = partial(_finished, predictor, tuple(maps.known))
    return ModulePasses(predictor, ProjectedPasses(weights, finish))


def _finished(
    predictor: Wrapped, keys: tuple[Key, ...], projected: Float32, graph: Graph
) -> Float32:
    """Return the logits of a graph whose features times the matrices are known, side by side."""
    widths = [predictor.maps.known[key].shape[1] for key in keys]
    parts = np.split(projected, np.cumsum(widths)[:-1], axis=1)
    products = dict(zip(keys, parts, strict=True))

    def product(key: Key) -> Float32:
        if key not in products:
            raise NotLinearError("a matrix that other passes did not read")
        return products[key]

    return _logits(predictor, graph, product)


def _logits(predictor: Wrapped, graph: Graph, product: Callable[[Key], Float32]) -> Float32:
    """Return the logits of a module on stand-ins, given the products with its matrices."""
    both = np.concatenate([graph.edges, graph.edges[:, ::-1]]).T.astype(np.int64)
    shape = (graph.num_nodes, graph.num_features)

    def of_weight(weight: torch.Tensor) -> torch.Tensor:
        # A module may work on its products in place.
        return torch.from_numpy(product(predictor.maps.key(weight)).copy())

    def make(device: torch.device, dtype: torch.dtype) -> Inputs:
        if device.type != "cpu" or dtype != torch.float32:
            raise NotLinearError(f"{dtype} on {device}")
        tensors = {
            "x": Deferred.of(shape, dtype, of_weight),
            "edge_index": torch.from_numpy(both.copy()),
            "edge_weight": torch.ones(both.shape[1]),
            "batch": torch.zeros(shape[0], dtype=torch.int64),
        }
        return Inputs(tensors, *shape)

    return predictor.logits_of(make, graph)
