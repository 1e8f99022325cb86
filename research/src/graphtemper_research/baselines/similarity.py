"""A calibrator after SimCalib: similarity to class prototypes and among neighbours."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from graphtemper import Graph, errors
from graphtemper._core.checks import FloatArray, check_integer, check_non_negative
from graphtemper.calibrators.base import Inputs, Labelled
from graphtemper.calibrators.gats import (
    LEAST_TEMPERATURE,
    Context,
    attend,
    confidence_gap,
    distance_class,
    edge_products,
    looped_edges,
    unit_sorted,
)
from graphtemper.calibrators.network import NetworkCalibrator, Stop, Training
from graphtemper.graph.operators import multiply, operator

if TYPE_CHECKING:
    from torch import Generator, Tensor


class SimilarityCalibrator(NetworkCalibrator):
    r"""Temperatures from distances to class prototypes and from the similarity of neighbours.

    **An independent design after the abstract of SimCalib, not its published equations**, so its
    results are not SimCalib's. There is no released code, and the paper's equations were not
    available to the authors of this package. The abstract names the ingredients: a global part, the
    Mahalanobis distance between a node's representation and the class prototypes, and a local part,
    the similarity of the movement of representations, measured by homophily and relative degree.
    It does not say which layers are compared, whether the covariance is pooled, nor how the parts
    become a temperature. These are choices made here: one layer, a pooled covariance, relative
    degrees as in Yan et al. (2022), and the attention of `GATS` without its distance factor:

    .. math:: T_i = T_0 + \frac1H \sum_h \mathrm{softplus}\Big(\omega\,\delta_i
       + \sum_j \alpha_{ij}\,\theta_h^\top [\bar z_j, \bar m_j, \hat h_j, r_j]\Big)

    :math:`\bar m_j` are the node's sorted distances :math:`\sqrt{(h-\mu_c)^\top \Sigma^{-1}
    (h-\mu_c)}` in units of their mean at the source, :math:`\hat h_j` the fraction of neighbours
    with the same prediction, and :math:`r_j` the mean of :math:`\sqrt{(d_j+1)/(d_l+1)}` over them.
    Prototypes and the pooled covariance (Ledoit and Wolf's shrinkage) are those of the training
    nodes (without ``train_nodes``: of the calibration nodes), learned at the source and carried to
    a target.

    Parameters
    ----------
    represent : callable ``graph -> representations (N, D)``, optional
        A hidden layer of the frozen model; without it the logits are used.
    heads : int
        H.
    bias : float
        Initial :math:`T_0`.
    lr, weight_decay, epochs, patience, seed
        Adam, its L2 penalty, the limits, and the seed.
    stop : {"folds", "train", "calibration"}
        Which nodes end the training; see `GATS`.

    References
    ----------
    Tang et al., "SimCalib: Graph Neural Network Calibration based on Similarity between Nodes",
    AAAI 2024; Yan et al., "Two Sides of the Same Coin: Heterophily and Oversmoothing in Graph
    Convolutional Neural Networks", ICDM 2022.

    Examples
    --------
    >>> from graphtemper import csbm
    >>> g = csbm.sample(200, degree=6, homophily=0.8, snr=1.0, seed=0)
    >>> z = np.random.default_rng(0).normal(size=(200, 2))
    >>> calibrator = SimilarityCalibrator(epochs=3).fit(z, g.labels, g, range(100))
    >>> calibrator.transform(z, graph=g).shape
    (200, 2)
    """

    needs = ("labels", "graph", "train_nodes")
    reference = "after SimCalib (Tang et al., AAAI 2024)"
    differs = (
        "an independent design after the abstract, not the published equations: layer, covariance "
        "and the way from distances, homophily and relative degree to a temperature are our own"
    )

    def __init__(
        self,
        represent: Callable[[Graph], FloatArray] | None = None,
        heads: int = 8,
        bias: float = 1.0,
        lr: float = 0.01,
        weight_decay: float = 5e-3,
        epochs: int = 2000,
        patience: int = 100,
        stop: Stop = "folds",
        seed: int = 0,
    ) -> None:
        self.represent = represent
        self.heads = check_integer(heads, "heads", 1)
        self.bias = check_non_negative(bias, "bias")
        self._set_training(Training(lr, weight_decay, epochs, patience, stop, seed))

    def _fit(self, inputs: Inputs, labelled: Labelled) -> None:
        rows, labels = labelled.nodes, labelled.labels
        if labelled.train_nodes is not None and labelled.train_labels is not None:
            rows, labels = labelled.train_nodes, labelled.train_labels
        hidden = self._representation(inputs)
        self.prototypes_, self.whitening_ = prototypes(hidden[rows], labels, inputs.logits.shape[1])
        self.unit_ = 1.0
        self.unit_ = float(self._distances(inputs).mean()) or 1.0
        super()._fit(inputs, labelled)

    def _representation(self, inputs: Inputs) -> FloatArray:
        if self.represent is None:
            return inputs.logits
        return np.asarray(self.represent(inputs.required_graph), dtype=np.float64)

    def _distances(self, inputs: Inputs) -> FloatArray:
        hidden = self._representation(inputs)
        if hidden.shape[1] != self.prototypes_.shape[1]:
            raise errors.shape(
                f"representations have {hidden.shape[1]} columns but this calibrator was fitted on "
                f"{self.prototypes_.shape[1]}; pass those of the same layer."
            )
        white, centres = hidden @ self.whitening_, self.prototypes_ @ self.whitening_
        distances = np.stack([np.linalg.norm(white - centre, axis=1) for centre in centres], axis=1)
        return np.sort(distances, axis=1) / self.unit_

    def _context(self, inputs: Inputs) -> Context:
        import torch

        graph, logits = inputs.required_graph, inputs.logits
        node, end = looped_edges(graph)
        columns = np.column_stack(
            [unit_sorted(logits), self._distances(inputs), *neighbourhood(logits, graph)]
        )
        return Context(
            torch.from_numpy(columns.astype(np.float32)),
            torch.from_numpy(confidence_gap(logits, graph).astype(np.float32)),
            torch.from_numpy(node),
            torch.from_numpy(end),
            torch.from_numpy(edge_products(logits, node, end).astype(np.float32)),
            torch.from_numpy(distance_class(graph, None)),
        )

    def _initial(self, context: Context, generator: Generator) -> list[Tensor]:
        import torch

        from graphtemper.calibrators.training import glorot, zeros

        theta = glorot((context.sorted_logits.shape[1], self.heads), generator)
        return [theta, zeros(1), torch.tensor([self.bias], requires_grad=True)]

    def _multipliers(
        self, parameters: list[Tensor], context: Context, generator: Generator | None
    ) -> Tensor:
        import torch

        theta, omega, bias = parameters
        ones = torch.ones(len(context.sorted_logits))
        drive = attend(context, context.sorted_logits @ theta, ones)
        drive = drive + (omega * context.confidence_gap)[:, None]
        temperatures = torch.nn.functional.softplus(drive).mean(dim=1) + bias
        return 1.0 / temperatures.clamp(min=LEAST_TEMPERATURE)


def prototypes(
    hidden: FloatArray, labels: np.ndarray[tuple[int], np.dtype[np.intp]], num_classes: int
) -> tuple[FloatArray, FloatArray]:
    """Return class means (K, D) and W such that |(h - mu) W| is the Mahalanobis distance.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> labels = rng.integers(2, size=4000)
    >>> hidden = rng.normal(size=(4000, 2)) * [1.0, 5.0] + 3.0 * labels[:, None]
    >>> means, whitening = prototypes(hidden, labels, 2)
    >>> float(np.linalg.norm(np.array([0.0, 10.0]) @ whitening).round(1))   # two deviations
    2.0
    """
    from sklearn.covariance import ledoit_wolf

    present = np.unique(labels)
    means = np.stack([hidden[labels == k].mean(axis=0) for k in present])
    centred = hidden - means[np.searchsorted(present, labels)]
    covariance, _ = ledoit_wolf(centred, assume_centered=True)
    values, vectors = np.linalg.eigh(covariance)
    # Constant columns have no variance; they get a tiny one.
    values = np.maximum(values, max(float(values.max()), 1.0) * 1e-10)
    # A class without a training node has no prototype: the overall mean takes its place.
    full = np.tile(hidden.mean(axis=0), (num_classes, 1))
    full[present] = means
    return full, np.asarray(vectors / np.sqrt(values))


def neighbourhood(logits: FloatArray, graph: Graph) -> tuple[FloatArray, FloatArray]:
    """Return the fraction of neighbours with equal prediction and the mean relative degree, (N,).

    A node without neighbours has 1 for both.

    Examples
    --------
    >>> g = Graph(features=[[0.0]] * 3, edges=[[0, 1], [1, 2]])
    >>> equal, relative = neighbourhood(np.array([[1.0, 0.0], [2.0, 0.0], [0.0, 1.0]]), g)
    >>> equal.tolist(), relative.round(3).tolist()
    ([1.0, 0.5, 0.0], [0.816, 1.225, 0.816])
    """
    mean = operator(graph, "mean")
    predicted = logits.argmax(axis=1)
    votes = np.eye(logits.shape[1])[predicted]
    equal = multiply(mean, votes)[np.arange(len(votes)), predicted]
    size = graph.degrees + 1.0
    relative = np.sqrt(size) * multiply(mean, 1.0 / np.sqrt(size))
    some = graph.degrees > 0
    return np.where(some, equal, 1.0), np.where(some, relative, 1.0)
