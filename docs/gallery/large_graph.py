"""A large graph.

Logits and tables in Parquet instead of a graph in memory.

The graph of this example has 40,000 nodes, so that it runs in seconds; the steps are the same for a
hundred million, where memory holds a sample with its neighbourhoods.
"""

# %%
# A model and a card from a small labelled graph.

import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from graphtemper import SourceCard, csbm, recalibrate
from graphtemper.models import SIGN
from graphtemper.scale import StoredGraph

settings = {"degree": 10, "snr": 1.0, "num_features": 16}
source = csbm.sample(2000, homophily=0.8, seed=1, **settings)
model = SIGN(hops=2, operator="mean").fit(source, range(1000))
card = SourceCard.build(model, source, range(1000, 2000), compositions=0)

# %%
# What an inference job leaves behind: edges, nodes with their features, and logits, in parts.

folder = Path(tempfile.mkdtemp())
target = csbm.sample(40_000, homophily=0.7, seed=2, **settings)
logits = model(target)
tables = {
    "edges": dict(zip(("source", "target"), target.edges.T, strict=True)),
    "nodes": {f"x{j}": column for j, column in enumerate(target.features.T)},
    "logits": {f"logit_{k}": column for k, column in enumerate(logits.T)},
}
for name, columns in tables.items():
    (folder / name).mkdir()
    for part in range(4):
        rows = {key: np.array_split(values, 4)[part] for key, values in columns.items()}
        pq.write_table(pa.table(rows), folder / name / f"part-{part}.parquet")

# %%
# One call. The answer is a folder of Parquet files, one row per node.

graph = StoredGraph.open(folder / "nodes", folder / "edges")
result = recalibrate(model, graph, card, logits=folder / "logits", out=folder / "answer")
print(f"verdict {result.verdict}, accuracy {result.accuracy.value:.3f}")
print(sorted(path.name for path in result.out.iterdir()))
print(pq.read_table(result.out).slice(0, 3).to_pandas().round(3).to_string(index=False))

# %%
# Larger graphs than 100,000 nodes are not loaded: the model runs on a sample of the nodes. Here
# samples of several sizes are asked for, and compared with the whole graph.

import matplotlib.pyplot as plt

whole = recalibrate(model, target.replace(labels=None), card).accuracy
sizes = (500, 1000, 2000, 4000)
found = [
    recalibrate(model, graph, card, logits=folder / "logits", sample=size).accuracy
    for size in sizes
]

figure, axes = plt.subplots(figsize=(7, 2.8), layout="constrained")
reach = [[item.value - item.low for item in found], [item.high - item.value for item in found]]
axes.errorbar(sizes, [item.value for item in found], reach, fmt="o", capsize=3)
axes.axhspan(whole.low, whole.high, alpha=0.15)
axes.set(xlabel="sampled nodes", ylabel="estimated accuracy")
