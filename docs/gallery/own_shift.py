"""A shift family of your own.

You know how your graph changes, and the card can learn from it.

A shift is a name, a strength, and a function of graph, strength and random generator. Passed to
`SourceCard.build` it joins the atlas like the fourteen built-in families.
"""

# %%
# Sensors fail: a random share of the nodes report the mean of every column instead of their own
# features.

from graphtemper import SourceCard, csbm, recalibrate, shifts
from graphtemper.models import SIGN


def failing(level):
    def change(graph, level, rng):
        features = graph.features.copy()
        features[rng.random(graph.num_nodes) < level] = features.mean(axis=0)
        return graph.replace(features=features)

    return shifts.Shift("failing sensors", float(level), change)


# %%
# Two cards: one with the built-in families, one that knows failing sensors as well.

source = csbm.sample(1600, degree=6, homophily=0.75, snr=1.5, num_features=6, seed=1)
model = SIGN(hops=1).fit(source, range(800))
usual = {"noise": (0.5, 1.0, 2.0), "mask": (0.3, 0.6), "rewire": (0.25, 0.5), "drop": (0.3, 0.6)}
listed = [getattr(shifts, name)(level) for name, levels in usual.items() for level in levels]
own = [failing(level) for level in (0.1, 0.25, 0.4, 0.6, 0.8)]
nodes = range(800, 1600)
card = SourceCard.build(model, source, nodes, compositions=0, shifts=listed)
knowing = SourceCard.build(model, source, nodes, compositions=0, shifts=[*listed, *own])

# %%
# A target with a share of failing sensors that neither card has seen.

target = failing(0.5)(csbm.sample(1600, 6, 0.75, 1.5, num_features=6, seed=2), seed=3)
answers = [recalibrate(model, target, each) for each in (card, knowing)]
print(answers[1].summary())

# %%
# Estimates of both cards against the truth.

import matplotlib.pyplot as plt

levels, truth, estimates = (0.0, 0.15, 0.3, 0.45, 0.6, 0.75), [], ([], [])
for level in levels:
    graph = failing(level)(csbm.sample(1600, 6, 0.75, 1.5, num_features=6, seed=2), seed=3)
    truth.append((model(graph).argmax(axis=1) == graph.labels).mean())
    for values, each in zip(estimates, (card, knowing), strict=True):
        values.append(recalibrate(model, graph, each).accuracy.value)

figure, axes = plt.subplots(figsize=(7, 3), layout="constrained")
axes.plot(levels, truth, "k--", label="truth")
axes.plot(levels, estimates[0], "o-", label="built-in families")
axes.plot(levels, estimates[1], "o-", label="with the own family")
axes.set(xlabel="share of failing sensors", ylabel="accuracy")
axes.legend()
