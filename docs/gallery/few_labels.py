"""A few labels.

The verdict is not `trust`, and an expert can label a handful of nodes.

`suggest_labels` draws the nodes. The atlas is the prior and the labels are the evidence, so the
interval narrows with every batch.
"""

# %%
# A model, its card, and a target that is unlike the source in two ways: noisier features and fewer
# edges within classes.

from graphtemper import SourceCard, csbm, recalibrate, shifts, suggest_labels
from graphtemper.models import SIGN

settings = {"degree": 6, "snr": 1.0, "num_classes": 3, "num_features": 8}
source = csbm.sample(1600, homophily=0.75, seed=1, **settings)
model = SIGN(hops=1).fit(source, range(800))
card = SourceCard.build(model, source, range(800, 1600), compositions=10)

target = shifts.noise(0.7)(csbm.sample(1600, homophily=0.55, seed=2, **settings), seed=3)
result = recalibrate(model, target, card)  # labels of the target, if any, are removed
print(result.summary())

# %%
# Label 25, 50, 100 and 200 nodes. Here the "expert" reads them from the synthetic graph.

answers = {0: result}
for count in (25, 50, 100, 200):
    labels = {node: target.labels[node] for node in suggest_labels(result, count)}
    answers[count] = recalibrate(model, target, card, labels=labels)
print(answers[200].summary())

# %%
# The interval against the number of labels; the dashed line is the true accuracy. These are 90 %
# intervals: one in ten may miss it.

import matplotlib.pyplot as plt

figure, axes = plt.subplots(figsize=(7, 3), layout="constrained")
for position, answer in enumerate(answers.values()):
    a = answer.accuracy
    spread = [[a.value - a.low], [a.high - a.value]]
    axes.errorbar(position, a.value, yerr=spread, fmt="o", capsize=4)
    axes.text(position, a.high + 0.008, answer.verdict, ha="center")
axes.axhline((model(target).argmax(axis=1) == target.labels).mean(), color="0.3", linestyle="--")
axes.set(xticks=range(len(answers)), xticklabels=list(answers), ylabel="accuracy")
axes.set_xlabel("labelled nodes")
axes.margins(y=0.15)
