"""One temperature per node.

The shift affects a part of the graph only.

One temperature lowers the confidence of all nodes alike, the unaffected ones too. With
`per_node=True` every node gets a temperature of its own, learned from shifts of the source that
affect a part of it.
"""

# %%
# A target in which the features of half of the nodes have become noisy.

import numpy as np

from graphtemper import SourceCard, csbm, metrics, recalibrate, shifts
from graphtemper.models import SIGN

source = csbm.sample(2000, degree=4, homophily=0.8, snr=2.0, num_features=8, seed=1)
rotation = np.linalg.qr(np.random.default_rng(0).standard_normal((8, 8)))[0]
source = source.replace(features=source.features @ rotation)  # every column carries signal
model = SIGN(hops=1).fit(source, range(1000))
card = SourceCard.build(model, source, range(1000, 2000), compositions=10)

clean = csbm.sample(2000, degree=4, homophily=0.8, snr=2.0, num_features=8, seed=2)
clean = clean.replace(features=clean.features @ rotation)
target = shifts.heterogeneous(2.0)(clean, seed=3)
noisy = (target.features != clean.features).any(axis=1)

# %%
# Both answers, and how well they rank errors.

single = recalibrate(model, target, card)
per_node = recalibrate(model, target, card, per_node=True)
for name, result in (("one temperature", single), ("per node", per_node)):
    p, labels = result.probabilities, target.labels
    print(f"{name:16} NLL {metrics.nll(p, labels):.3f}, Brier {metrics.brier(p, labels):.3f}")
print(per_node.reasons[-1])

# %%
# The temperatures of noisy and of clean nodes. The method does not know which are which.

import matplotlib.pyplot as plt

figure, axes = plt.subplots(figsize=(7, 3), layout="constrained")
bins = np.geomspace(*np.quantile(per_node.node_temperatures, [0, 1]), 40)
for chosen, label in ((~noisy, "clean nodes"), (noisy, "noisy nodes")):
    axes.hist(per_node.node_temperatures[chosen], bins, alpha=0.6, label=label)
axes.axvline(single.temperature, color="0.3", linestyle="--", label="one temperature")
axes.set(xscale="log", xlabel="temperature", ylabel="nodes")
axes.legend()
