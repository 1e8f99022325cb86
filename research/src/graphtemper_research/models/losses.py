r"""Training losses of the torch models: means over nodes, from logits (n, K) and labels (n,).

They use tensor methods only, so importing this module does not need torch. With p the predicted
probability of the true class:

===============  ============================  ==========================================
name             loss of one node              effect on confidence
===============  ============================  ==========================================
`cross-entropy`  :math:`-\log p`               none intended
`focal`          :math:`-(1-p)^g \log p`       lowers it (Mukhoti et al., 2020; g = 3)
`gcl`            :math:`-(1+g\,p)\log p`       raises it (Wang et al., 2022)
===============  ============================  ==========================================

To add a loss, write a function here and add it to `LOSSES`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

Loss = Callable[["Tensor", "Tensor"], "Tensor"]


def _log_probability_of_truth(logits: Tensor, labels: Tensor) -> Tensor:
    return logits.log_softmax(dim=1).gather(1, labels[:, None])[:, 0]


def cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    r"""Return the mean of :math:`-\log p_y`.

    Examples
    --------
    >>> import torch
    >>> round(cross_entropy(torch.zeros(1, 2), torch.tensor([0])).item(), 4)
    0.6931
    """
    return -_log_probability_of_truth(logits, labels).mean()


def focal(logits: Tensor, labels: Tensor, gamma: float = 3.0) -> Tensor:
    r"""Return the mean of :math:`-(1-p_y)^\gamma \log p_y`: confident nodes have less weight.

    Examples
    --------
    >>> import torch
    >>> round(focal(torch.zeros(1, 2), torch.tensor([0]), gamma=3.0).item(), 4)   # log(2) / 8
    0.0866
    """
    log_truth = _log_probability_of_truth(logits, labels)
    # 1 - p by expm1: at an exact zero, a fractional power would have an infinite gradient.
    miss = -(log_truth.clamp(max=-1e-12).expm1())
    return -(miss**gamma * log_truth).mean()


def gcl(logits: Tensor, labels: Tensor, gamma: float = 0.1) -> Tensor:
    r"""Return the graph calibration loss, the mean of :math:`-(1+\gamma p_y) \log p_y`.

    Confident nodes have more weight, against the under-confidence that graph networks often have on
    the graph they were trained on. The published strength depends on the data set (0.01 to 1); the
    default 0.1 is that of this package.

    Examples
    --------
    >>> import torch
    >>> round(gcl(torch.zeros(1, 2), torch.tensor([0]), gamma=1.0).item(), 4)   # 1.5 log(2)
    1.0397
    """
    log_truth = _log_probability_of_truth(logits, labels)
    return -((1.0 + gamma * log_truth.exp()) * log_truth).mean()


LOSSES: dict[str, Callable[..., Tensor]] = {
    "cross-entropy": cross_entropy,
    "focal": focal,
    "gcl": gcl,
}


def named(loss: str, gamma: float | None = None) -> Loss:
    """Return the loss of the given name, with the strength ``gamma`` if it is given."""
    function = LOSSES[loss]
    if gamma is None:
        return function
    return lambda logits, labels: function(logits, labels, gamma)
