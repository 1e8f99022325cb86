"""Changed class shares.

The classes are as separable as before, but one has become rare.

`class_shares="estimate"` estimates the new shares without labels and corrects the logits for them,
if the evidence supports it. This is the one option that may change predictions.
"""

# %%
# A source with equal classes, and a target in which few nodes of class 1 and 2 are left.

import numpy as np

from graphtemper import SourceCard, csbm, metrics, recalibrate, shifts
from graphtemper.models import SIGN

settings = {"degree": 5, "homophily": 0.6, "snr": 1.0, "num_classes": 3, "num_features": 6}
source = csbm.sample(3000, seed=1, **settings)
model = SIGN(hops=1).fit(source, range(1500))
card = SourceCard.build(model, source, range(1500, 3000), compositions=10)

target = csbm.sample(6000, seed=2, **settings)
nodes = shifts.resample_classes(target.labels, None, [0.75, 0.15, 0.1], seed=3)

# %%
# The default answer does nothing about class shares; the second one corrects for them.

plain = recalibrate(model, target, card, nodes)
corrected = recalibrate(model, target, card, nodes, class_shares="estimate")
print("estimated shares:", corrected.class_shares.round(3))
print(corrected.summary())

# %%
# Measured with the target's labels:

labels = target.labels[nodes]
for name, result in (("plain", plain), ("corrected", corrected)):
    right = (result.predictions == labels).mean()
    error = metrics.ece(result.probabilities, labels)
    print(f"{name:10} accuracy {right:.3f}, ECE {error:.3f}")

# %%
# The shares of the source, those that the model predicts, the estimate, and the truth.

import matplotlib.pyplot as plt

bars = {
    "source": np.bincount(source.labels) / 3000,
    "predicted": np.bincount(model(target)[nodes].argmax(axis=1)) / len(nodes),
    "estimated": corrected.class_shares,
    "true": np.bincount(labels) / len(nodes),
}
figure, axes = plt.subplots(figsize=(7, 3), layout="constrained")
for number, (name, shares) in enumerate(bars.items()):
    axes.bar(np.arange(3) + 0.2 * number, shares, 0.18, label=name)
axes.set(xticks=np.arange(3) + 0.3, xticklabels=["class 0", "class 1", "class 2"], ylabel="share")
axes.legend()
