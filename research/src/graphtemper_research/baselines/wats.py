"""WATS: temperatures from graph wavelets of the degrees."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np
import scipy.sparse as sp
from scipy.special import ive

from graphtemper import Graph
from graphtemper.calibrators import Inputs, NetworkCalibrator, Stop, Training
from graphtemper.graph import operator
from graphtemper_research.harness.numeric import FloatArray

if TYPE_CHECKING:
    from torch import Generator, Tensor

Coefficients = Literal["heat", "exponential"]
_OFFSET = 1e-6


class WATS(NetworkCalibrator):
    r"""A small network of wavelet features of the log degree gives each node its temperature.

    .. math:: x = \log(1 + 2(d + 1)), \qquad
       \phi_{il} \propto a_l\,[T_l(\hat L)\,x]_i \ (l = 0 \ldots m), \qquad
       T_i = \mathrm{softplus}(\mathrm{MLP}(\phi_i)) + 10^{-6}

    with :math:`\hat L = -D^{-1/2} A D^{-1/2}` (the normalised Laplacian minus the identity, without
    self-loops; -1 at an isolated node), Chebyshev polynomials :math:`T_l`, and rows of
    :math:`\phi` divided by the sum of their magnitudes. Only the structure matters: feature noise
    never changes a temperature, and on a regular graph all nodes have the same one.

    Parameters
    ----------
    coefficients : {"heat", "exponential"}
        :math:`a_l` of the heat kernel :math:`e^{-s\lambda}`, which are
        :math:`(2 - [l{=}0]) (-1)^l e^{-s} I_l(s)` with Bessel functions I, as in the paper; or
        :math:`e^{-sl}`, as in the released code.
    order : int
        m.
    scale : float
        s.
    hidden : int
        Width of the hidden layer (the authors: 8 to 128 by data set).
    dropout : float
        Fraction of hidden units dropped in training.
    lr, weight_decay, epochs, patience, seed
        Adam, its L2 penalty, the limits, and the seed.
    stop : {"folds", "train", "calibration"}
        Which nodes end the training; see `GATS`.

    References
    ----------
    Li et al., "WATS: Wavelet-Aware Temperature Scaling", arXiv 2506.23782.

    Examples
    --------
    >>> from graphtemper import csbm
    >>> g = csbm.sample(200, degree=6, homophily=0.8, snr=1.0, seed=0)
    >>> z = np.random.default_rng(0).normal(size=(200, 2))
    >>> WATS(epochs=5).fit(z, g.labels, g, range(100)).temperatures(z, graph=g).shape
    (200,)
    """

    reference = "Li et al., arXiv 2506.23782"
    differs = 'heat-kernel coefficients as in the paper; the released code is "exponential"'

    def __init__(
        self,
        coefficients: Coefficients = "heat",
        order: int = 4,
        scale: float = 0.4,
        hidden: int = 16,
        dropout: float = 0.3,
        lr: float = 0.01,
        weight_decay: float = 0.0,
        epochs: int = 1000,
        patience: int = 50,
        stop: Stop = "folds",
        seed: int = 0,
    ) -> None:
        self.coefficients: Coefficients = coefficients
        self.order = order
        self.scale = scale
        self.hidden = hidden
        self.dropout = dropout
        self._set_training(Training(lr, weight_decay, epochs, patience, stop, seed))

    def _context(self, inputs: Inputs) -> Tensor:
        import torch

        features = wavelet_features(
            inputs.required_graph, self.coefficients, self.order, self.scale
        )
        return torch.from_numpy(features.astype(np.float32))

    def _initial(self, context: Tensor, generator: Generator) -> list[Tensor]:
        from graphtemper.calibrators.training import glorot, zeros

        first = glorot((context.shape[1], self.hidden), generator)
        return [first, zeros(self.hidden), glorot((self.hidden, 1), generator), zeros(1)]

    def _multipliers(
        self, parameters: list[Tensor], context: Tensor, generator: Generator | None
    ) -> Tensor:
        import torch

        from graphtemper.calibrators.training import dropped

        first, first_bias, second, second_bias = parameters
        hidden = dropped((context @ first + first_bias).relu(), self.dropout, generator)
        output = (hidden @ second + second_bias)[:, 0]
        return 1.0 / (torch.nn.functional.softplus(output) + _OFFSET)


def wavelet_features(
    graph: Graph, coefficients: Coefficients, order: int, scale: float
) -> FloatArray:
    """Return the weighted Chebyshev terms of the log degree, rows of unit magnitude, (N, m + 1).

    Examples
    --------
    >>> ring = Graph(features=[[0.0]] * 4, edges=[[0, 1], [1, 2], [2, 3], [0, 3]])
    >>> wavelet_features(ring, "exponential", 1, 0.4)[0].round(4).tolist()
    [0.5987, -0.4013]
    """
    matrix = _reflected(graph)
    terms = [np.log1p(2.0 * (graph.degrees + 1.0))]
    if order:
        terms.append(matrix @ terms[0])
    for _ in range(2, order + 1):
        terms.append(2.0 * (matrix @ terms[-1]) - terms[-2])
    features = np.column_stack(terms) * _weights(coefficients, order, scale)
    return np.asarray(features / np.abs(features).sum(axis=1, keepdims=True))


def _reflected(graph: Graph) -> sp.csr_matrix:
    """Return the Laplacian minus the identity; that of an isolated node is zero minus one."""
    isolated = sp.diags((graph.degrees == 0).astype(np.float64))
    return sp.csr_matrix(-operator(graph, "symmetric").astype(np.float64) - isolated)


def _weights(coefficients: Coefficients, order: int, scale: float) -> FloatArray:
    degree = np.arange(order + 1)
    if coefficients == "exponential":
        return np.asarray(np.exp(-scale * degree))
    weights = 2.0 * ive(degree, scale) * (-1.0) ** degree  # ive has the factor e^-s
    weights[0] /= 2.0
    return np.asarray(weights)
