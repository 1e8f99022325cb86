r"""SGC and SIGN: propagate linearly, then multinomial logistic regression.

Prediction projects first: logits are :math:`\sum_k S^k (X W_k) + b`, so K columns are propagated
instead of the F columns of X, and the N x F(k+1) feature matrix is never built. See
`graphtemper.models.linear_passes`.
"""

from __future__ import annotations

import os
import warnings
from typing import TYPE_CHECKING, Any, ClassVar, get_args

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from graphtemper import errors, temperature
from graphtemper._core.checks import FloatArray, check_integer, check_number
from graphtemper._core.parameters import HasParameters
from graphtemper._core.reproducible import one_blas_thread
from graphtemper.graph.graph import Graph, Nodes, select_labelled, select_nodes
from graphtemper.graph.operators import Operator, multiply, operator
from graphtemper.models.passes import ProjectedPasses, linear_passes
from graphtemper.models.predictor import BUNDLED_UNREAD, as_graph, check_one_node_type
from graphtemper.models.saved import check_fields, finite_array, save

if TYPE_CHECKING:
    from torch_geometric.data import Data

FORMAT = "graphtemper.linear/1"
# Far beyond the diameter of any graph in practice; a model holds one array per hop.
MAX_HOPS = 1000


class LinearGNN(HasParameters):
    """A linear graph network with a logistic head; use `SGC` or `SIGN`.

    Edge weights are used if the graph has them. Of a directed graph it reads the links
    (`Graph.links`), without direction; edge features and edge types are not read.

    Parameters
    ----------
    hops : int
        Number of times that features are propagated; 0 to 1000.
    operator : {"self-loop", "symmetric", "mean"}
        The aggregation operator S; see `graphtemper.graph.operators.operator`.
    C : float
        Inverse strength of the L2 penalty, as in scikit-learn; ``inf`` means no penalty.
    max_iter : int
        Maximum number of iterations of the solver (L-BFGS), at least 1.
    tol : float
        The solver stops when no component of the gradient of the mean loss is larger; 0 or more.

    Attributes
    ----------
    weights_ : (len(hops used), F, K) array
        One weight matrix per propagated term; for two classes the first column is zero, so that
        logits are [0, g].
    intercept_ : (K,) array
    converged_ : bool
        Whether the solver reached ``tol`` within ``max_iter``.
    """

    unread: ClassVar = BUNDLED_UNREAD

    def __init__(
        self,
        hops: int = 2,
        operator: Operator = "self-loop",
        C: float = 1.0,
        max_iter: int = 1000,
        tol: float = 1e-6,
    ) -> None:
        self.hops = check_integer(hops, "hops", 0, MAX_HOPS)
        if operator not in get_args(Operator):
            names = ", ".join(get_args(Operator))
            raise errors.choice(f"unknown operator {operator!r}; use one of {names}.")
        self.operator: Operator = operator
        self.C = check_number(C, "C")
        if not self.C > 0:
            raise errors.range(f"C must be positive (inf for no penalty), not {C}.")
        self.max_iter = check_integer(max_iter, "max_iter", 1)
        self.tol = check_number(tol, "tol")
        if not 0 <= self.tol < np.inf:
            raise errors.range(f"tol must be 0 or more and finite, not {tol}.")

    @property
    def hops_used(self) -> tuple[int, ...]:
        """The powers k of S whose S^k X the model reads."""
        raise TypeError("use SGC or SIGN; LinearGNN is their base class.")

    def design(self, graph: Graph, nodes: Nodes = None) -> NDArray[np.float64] | sp.csr_matrix:
        """Return the propagated features of the given nodes, with the hops side by side.

        S^k X is computed only where it is needed: at the nodes, and at the neighbours from which
        later hops reach them.
        """
        rows = select_nodes(nodes, graph.num_nodes)
        matrix = operator(graph, self.operator) if self.hops else sp.csr_matrix((0, 0))
        needed = [rows]
        for _ in range(self.hops):
            needed.insert(0, np.union1d(rows, matrix[needed[0]].indices).astype(np.int64))
        blocks: list[Any] = []
        current: Any = graph.features[needed[0]]
        for hop in range(self.hops + 1):
            if hop:
                step = sp.csr_matrix(matrix[needed[hop]][:, needed[hop - 1]])
                current = multiply(step, current)
            if hop in self.hops_used:
                last = hop == self.hops
                blocks.append(current if last else current[np.searchsorted(needed[hop], rows)])
        if sp.issparse(graph.features):
            stacked = sp.csr_matrix(sp.hstack(blocks, format="csr", dtype=np.float64))
            # Two hops fill in on some graphs; beyond half full, dense is smaller and faster to fit.
            return stacked.toarray() if 2 * stacked.nnz > np.prod(stacked.shape) else stacked
        return np.hstack(blocks).astype(np.float64)

    def fit(self, graph: Graph | Data, nodes: Nodes = None) -> LinearGNN:
        """Fit on labelled nodes: a boolean mask or indices (default all labelled nodes).

        A PyG ``Data`` is converted. Raises `InputError` if a listed node has no label or if only
        one class is present.
        """
        from sklearn.exceptions import ConvergenceWarning
        from sklearn.linear_model import LogisticRegression

        graph = as_graph(graph)
        check_one_node_type(graph, type(self).__name__)
        rows, labels = select_labelled(graph, nodes)
        present = np.unique(labels)
        if present.size < 2:
            raise errors.too_few("the nodes have one class; fit needs at least two.")
        head = LogisticRegression(C=self.C, max_iter=self.max_iter, tol=self.tol)
        with warnings.catch_warnings(), one_blas_thread():
            warnings.simplefilter("ignore", ConvergenceWarning)
            head.fit(self.design(graph, rows), labels)
        coefficients, intercept = _per_class(
            head.coef_, head.intercept_, present, graph.num_classes
        )
        terms = len(self.hops_used)
        shape = (graph.num_classes, terms, graph.num_features)
        self.weights_ = np.ascontiguousarray(coefficients.reshape(shape).transpose(1, 2, 0))
        self.intercept_ = _with_absent_classes(intercept, present, rows.size)
        self.converged_ = bool(head.n_iter_.max() < self.max_iter)
        return self

    def __call__(self, graph: Graph | Data) -> NDArray[np.float32]:
        """Return logits (N, K) for every node."""
        return self._passes().logits(as_graph(graph))

    def predict(self, graph: Graph | Data) -> NDArray[np.intp]:
        """Return the most likely class of every node, (N,)."""
        return np.asarray(self(graph).argmax(axis=1))

    def predict_proba(self, graph: Graph | Data) -> FloatArray:
        """Return class probabilities (N, K) as the model states them: softmax of its logits."""
        return temperature.apply(self(graph))

    def fast_passes(self) -> ProjectedPasses | None:
        """Return the model's fast passes, or None for a subclass that overrides ``__call__``."""
        return self._passes() if type(self).__call__ is LinearGNN.__call__ else None

    def _passes(self) -> ProjectedPasses:
        self._check_fitted()
        return linear_passes(self.weights_, self.intercept_, self.hops_used, self.operator)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted model as ``.npz`` (no pickle); `graphtemper.models.load` reads it."""
        self._check_fitted()
        header = {"format": FORMAT, "model": type(self).__name__, "converged": self.converged_}
        arrays = {"weights": self.weights_, "intercept": self.intercept_}
        save(path, header | self.get_params(), arrays)

    def _check_fitted(self) -> None:
        if not hasattr(self, "weights_"):
            raise errors.not_fitted(
                f"this {type(self).__name__} is not fitted; call fit(graph, nodes)."
            )


class SGC(LinearGNN):
    """Simplified graph convolution (Wu et al., 2019): logistic regression on S^k X.

    Examples
    --------
    >>> from graphtemper import csbm
    >>> g = csbm.sample(500, degree=10, homophily=0.9, snr=1.0, seed=1)
    >>> model = SGC(hops=1, operator="mean").fit(g)
    >>> model(g).shape
    (500, 2)
    """

    @property
    def hops_used(self) -> tuple[int, ...]:
        """Only the last power."""
        return (self.hops,)


class SIGN(LinearGNN):
    """Scalable inception features (Frasca et al., 2020) as in the paper: [X, SX, ..., S^k X].

    Examples
    --------
    >>> from graphtemper import csbm
    >>> g = csbm.sample(500, degree=10, homophily=0.9, snr=1.0, seed=1)
    >>> logits = SIGN(hops=2, C=1.0).fit(g, nodes=range(250))(g)
    >>> print(logits[:2].round(1))   # binary logits are [0, g]
    [[ 0.  -6.5]
     [ 0.   1.1]]
    """

    @property
    def hops_used(self) -> tuple[int, ...]:
        """Every power from 0 to hops."""
        return tuple(range(self.hops + 1))


def from_arrays(header: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> LinearGNN:
    """Rebuild a saved model from its header and arrays; `graphtemper.models.load` calls this."""
    model_class = {"SGC": SGC, "SIGN": SIGN}[header.pop("model")]
    converged = header.pop("converged")
    if not isinstance(converged, bool):
        raise errors.content(f"converged must be true or false, not {converged!r}.")
    check_fields(header, model_class().get_params())
    model = model_class(**header)
    weights, intercept = (finite_array(arrays, key) for key in ("weights", "intercept"))
    if (
        weights.ndim != 3
        or weights.shape[0] != len(model.hops_used)
        or intercept.shape != weights.shape[2:]
    ):
        raise errors.content(
            f"weights {weights.shape} and intercept {intercept.shape} disagree with each other or "
            f"with {model.hops} hops."
        )
    if weights.shape[1] < 1 or weights.shape[2] < 2:
        raise errors.content(
            f"weights {weights.shape} need a feature column and two classes or more."
        )
    model.weights_, model.intercept_ = weights.astype(np.float64), intercept.astype(np.float64)
    model.converged_ = converged
    return model


def _per_class(
    coefficients: NDArray[np.float64],
    intercept: NDArray[np.float64],
    present: NDArray[np.int64],
    num_classes: int,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Expand the rows of the head to all classes; a single decision value g becomes [0, g]."""
    if present.size == 2:
        # [0, g] if there are two classes, and centred, like scikit-learn's rows, if more.
        low = 0.0 if num_classes == 2 else -0.5
        coefficients = np.vstack([low * coefficients, (1.0 + low) * coefficients])
        intercept = np.concatenate([low * intercept, (1.0 + low) * intercept])
    full = np.zeros((num_classes, coefficients.shape[1]))
    offsets = np.full(num_classes, np.nan)
    full[present] = coefficients
    offsets[present] = intercept
    return full, offsets


def _with_absent_classes(
    intercept: NDArray[np.float64], present: NDArray[np.int64], num_fitted: int
) -> NDArray[np.float64]:
    """Give classes without a fitted node a finite logit that is never the largest.

    The rows of a penalised multinomial fit sum to zero over classes, so the largest logit of a node
    is at least the mean intercept. The smallest intercept minus log(2 n) is below that; it is the
    evidence of half a node.
    """
    floor = intercept[present].min() - np.log(2.0 * num_fitted)
    return np.where(np.isnan(intercept), floor, intercept)
