"""Logits without a model.

The model runs in another job, which hands over an array of logits.

Nothing can be run again, so fewer signals are available and the interval is wider. The example
compares both answers with the truth.
"""

# %%
# The card is made once, where the model can be run.

from graphtemper import SourceCard, csbm, recalibrate
from graphtemper.models import SIGN

settings = {"degree": 8, "snr": 1.0, "num_features": 8}
source = csbm.sample(1600, homophily=0.8, seed=1, **settings)
model = SIGN(hops=1).fit(source, range(800))
card = SourceCard.build(model, source, range(800, 1600), compositions=10)

# %%
# Later, a new graph and its logits arrive. `recalibrate` takes the array in place of the model.

target = csbm.sample(1600, homophily=0.68, seed=2, **settings)
logits = model(target)
from_logits = recalibrate(logits, target.replace(labels=None), card)
print(from_logits.summary())

# %%
# With the model, the same card reads all signals:

with_model = recalibrate(model, target.replace(labels=None), card)
print(with_model.summary())

# %%
# The true accuracy, from labels that neither answer has seen, is the dashed line.

import matplotlib.pyplot as plt

figure, axes = plt.subplots(figsize=(7, 1.9), layout="constrained")
for row, result in enumerate((with_model, from_logits)):
    estimate = result.accuracy
    spread = [[estimate.value - estimate.low], [estimate.high - estimate.value]]
    axes.errorbar(estimate.value, row, xerr=spread, fmt="o", capsize=4)
axes.axvline((logits.argmax(axis=1) == target.labels).mean(), color="0.3", linestyle="--")
axes.set(yticks=[0, 1], yticklabels=["with the model", "logits only"], ylim=(-0.6, 1.6))
axes.set(xlabel="accuracy: estimate, 90 % interval, and truth (dashed)")
