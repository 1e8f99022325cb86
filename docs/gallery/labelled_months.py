"""Labelled months.

Labels arrive late, and the card can learn from every month that has them.

Drawn shifts do not teach how far the world moves from month to month. Earlier months do: each
leaves a few aggregates in the card, and the estimate for the next month starts from them.
"""

# %%
# A graph whose classes mix slightly more every month. From month 1 on, 12 % of the labels also
# follow a new definition, which leaves no trace in features or edges.

import numpy as np

from graphtemper import SourceCard, csbm, recalibrate
from graphtemper.models import SIGN


def month(number):
    graph = csbm.sample(
        1200, degree=8, homophily=0.8 - 0.015 * number, snr=1.0, num_features=8, seed=number
    )
    rng = np.random.default_rng(number)
    flipped = rng.random(1200) < (0.12 if number else 0.0)
    return graph.replace(labels=np.where(flipped, 1 - graph.labels, graph.labels))


source = month(0)
model = SIGN(hops=1).fit(source, range(600))
card = SourceCard.build(model, source, range(600, 1200), compositions=10)

# %%
# Every month is first recalibrated without its labels, and learned from when they arrive.

rows = []
learned = card
for number in range(1, 7):
    graph = month(number)
    truth = (model(graph).argmax(axis=1) == graph.labels).mean()
    alone = recalibrate(model, graph, card).accuracy
    taught = recalibrate(model, graph, learned)
    rows.append((truth, alone, taught.accuracy))
    learned = learned.learn(model, graph, range(300), name=f"month {number}", when=number)
print(taught.summary())

# %%
# Without the earlier months no statistic shows that labels are defined differently. From the
# second month on the card knows, and its interval says how much it knows.

import matplotlib.pyplot as plt

figure, axes = plt.subplots(figsize=(7, 3.2), layout="constrained")
months = np.arange(1, 7)
for offset, column, label in ((-0.1, 1, "card alone"), (0.1, 2, "with earlier months")):
    estimates = [row[column] for row in rows]
    value = np.array([e.value for e in estimates])
    spread = [value - [e.low for e in estimates], [e.high for e in estimates] - value]
    axes.errorbar(months + offset, value, yerr=spread, fmt="o", capsize=3, label=label)
axes.plot(months, [row[0] for row in rows], "k--", label="truth")
axes.set(xlabel="month", ylabel="accuracy")
axes.legend()
