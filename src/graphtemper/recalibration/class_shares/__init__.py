r"""Class shares of a target without labels, whether they moved, and the logits that fit them.

Under label shift only the class shares change, :math:`p_t(x, y) = p_s(x \mid y)\, \pi_y`. Then the
share of each *predicted* class is a known mixture, and so is the density of x:

.. math:: q_i = \sum_j P_s(\hat y = i \mid y = j)\, \pi_j, \qquad
          p_t(x) \propto \sum_k \frac{\pi_k}{s_k}\, p_s(k \mid x)\, p_s(x),

with the source shares s. `bbse` and `rlls` solve the first for :math:`\pi`, from a confusion table
and K numbers of the target; `em` maximises the likelihood of the second, from the probabilities of
every node. All three are wrong if :math:`p(x \mid y)` itself changed, and none can detect that;
`shares_fit` can, as far as the model's predictions and confidences show it. The class profile of a
source card (`graphtemper.card.class_profile`) describes the source's classes, and `support` decides
whether `recalibrate` corrects for new shares.

A confusion table C is joint, C[i, j] = P(predicted i, true j): rows are predictions, columns are
labels, all entries sum to 1. A class that the source lacks has no column to be recognised by, so
its share stays 0.
"""

from graphtemper.recalibration.class_shares.confusion import adjust_logits, bbse, rlls
from graphtemper.recalibration.class_shares.likelihood import em, share_error
from graphtemper.recalibration.class_shares.share_tests import (
    FitTest,
    ShareTest,
    shares_fit,
    shares_moved,
)

__all__ = [
    "FitTest",
    "ShareTest",
    "adjust_logits",
    "bbse",
    "em",
    "rlls",
    "share_error",
    "shares_fit",
    "shares_moved",
]
