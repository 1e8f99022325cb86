"""Prediction sets.

A set of classes per node that contains the true one with a chosen probability.

Thresholds come from the labelled source. On a changed graph they keep their coverage better if the
probabilities are recalibrated first.
"""

# %%
# At the source: a model, its card, and the threshold of the sets.

from graphtemper import ConformalSets, SourceCard, csbm, metrics, recalibrate, temperature
from graphtemper.models import SIGN

settings = {"degree": 8, "snr": 1.0, "num_classes": 4, "num_features": 8}
source = csbm.sample(2000, homophily=0.8, seed=1, **settings)
model = SIGN(hops=1).fit(source, range(800))
held_out = range(800, 2000)
card = SourceCard.build(model, source, held_out, compositions=10)
p = temperature.apply(model(source), card.temperature)
sets = ConformalSets("aps", level=0.9).fit(p, source.labels, nodes=held_out)

# %%
# Targets that lose more and more homophily. Labels are used to measure the coverage only.

rows = []
for homophily in (0.8, 0.7, 0.6, 0.5):
    target = csbm.sample(2000, homophily=homophily, seed=2, **settings)
    result = recalibrate(model, target.replace(labels=None), card)
    plain = sets.predict(temperature.apply(model(target), card.temperature))
    recalibrated = sets.predict(result.probabilities)
    coverages = [metrics.coverage(s, target.labels) for s in (plain, recalibrated)]
    rows.append((homophily, *coverages, metrics.mean_set_size(recalibrated)))

print("homophily  coverage  recalibrated  mean size")
for row in rows:
    print("{:9.2f}  {:8.3f}  {:12.3f}  {:9.2f}".format(*row))

# %%
# Coverage against homophily; the sets were made for 90 %.

import matplotlib.pyplot as plt

homophily, before, after, _ = zip(*rows, strict=True)
figure, axes = plt.subplots(figsize=(7, 3), layout="constrained")
axes.axhline(0.9, color="0.5", linewidth=0.8)
axes.plot(homophily, before, "o-", label="source temperature")
axes.plot(homophily, after, "o-", label="recalibrated")
axes.set(xlabel="homophily of the target (source 0.8)", ylabel="coverage")
axes.invert_xaxis()
axes.legend()
