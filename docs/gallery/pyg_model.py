"""A PyG model in five lines.

A trained module, the graph it was trained on, and a graph that changed.

The training loop is ordinary PyG. The five lines follow it: wrap the module, check the wrapper,
build the card once with labels, and recalibrate on the new graph without any.
"""

# %%
# A GCN, trained on one month of a synthetic graph.

import torch
from torch_geometric.nn import GCN

from graphtemper import csbm

settings = {"degree": 8, "snr": 1.0, "num_classes": 3, "num_features": 16}
data = csbm.sample(1200, homophily=0.8, seed=1, **settings).to_pyg()
nodes = torch.arange(1200)
train_mask, data.val_mask = nodes < 600, nodes >= 600

torch.manual_seed(0)
net = GCN(16, hidden_channels=16, num_layers=2, out_channels=3)
optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
for _ in range(60):
    optimizer.zero_grad()
    output = net(data.x, data.edge_index)
    loss = torch.nn.functional.cross_entropy(output[train_mask], data.y[train_mask])
    loss.backward()
    optimizer.step()

# %%
# The next month arrives. Neighbours share their class less often than before. Its labels are kept
# aside: only the figure uses them.

next_month = csbm.sample(1200, homophily=0.65, seed=2, **settings)
new_data = next_month.replace(labels=None).to_pyg()

# %%
# The five lines. The card knows fewer shifts here than by default, to keep the example short.

from graphtemper import SourceCard, recalibrate
from graphtemper.pyg import predictor

few = {"noise": (0.5, 1.0), "rewire": (0.25, 0.5), "drop": (0.3,), "homophily": (-0.2,)}
model = predictor(net)
model.check(data)
card = SourceCard.build(model, data, data.val_mask, shifts=few, compositions=0, budget=100)
result = recalibrate(model, new_data, card)
print(result.summary())

# %%
# With the labels that were kept aside: confidence and accuracy, before and after.

import matplotlib.pyplot as plt

from graphtemper import metrics, temperature

before = temperature.apply(model(next_month), card.temperature)
figure, panels = plt.subplots(1, 2, figsize=(7, 3.2), sharey=True, layout="constrained")
for axes, p, title in zip(panels, (before, result.probabilities), ("before", "after"), strict=True):
    curve = metrics.reliability_curve(p, next_month.labels, bins=6)
    axes.plot([1 / 3, 1], [1 / 3, 1], color="0.5", linewidth=0.8)
    axes.plot(curve.confidence, curve.accuracy, "o-")
    error = metrics.ece(p, next_month.labels)
    axes.set(xlabel="confidence", title=f"{title}: ECE {error:.3f}")
panels[0].set_ylabel("accuracy")
