"""A large graph.

Shards on disk instead of a graph in memory, with the same answer.

The graph of this example has 40,000 nodes, so that it runs in seconds; the steps are the same for a
hundred million, where memory holds a part of the graph at a time.
"""

# %%
# A model and a card from a small labelled graph.

import tempfile
import time
from pathlib import Path

from graphtemper import SourceCard, csbm
from graphtemper.models import SIGN

settings = {"degree": 10, "snr": 1.0, "num_features": 16}
source = csbm.sample(2000, homophily=0.8, seed=1, **settings)
model = SIGN(hops=2).fit(source, range(1000))
card = SourceCard.build(model, source, range(1000, 2000), compositions=0)

# %%
# The large graph becomes a folder of shards. `convert_tables` does the same from a table of edges
# and a table of features that do not fit into memory.

from graphtemper.scale import convert_graph, recalibrate_shards

folder = Path(tempfile.mkdtemp())
target = csbm.sample(40_000, homophily=0.7, seed=2, **settings)
shards = convert_graph(target, folder / "target.shards", rows_per_shard=10_000)
print(f"{shards.num_nodes:,} nodes, {shards.num_edges:,} edges, {len(shards.shards)} shards")

# %%
# The answer is a folder of Parquet files, one row per node.

start = time.process_time()
result = recalibrate_shards(model, shards, card, folder / "answer")
seconds = {40_000: time.process_time() - start}
print(f"verdict {result.verdict}, accuracy {result.accuracy.value:.3f}")
print(sorted(path.name for path in result.out.iterdir()))

import pyarrow.parquet as pq

table = pq.read_table(folder / "answer")
print(table.slice(0, 3).to_pandas().round(3).to_string(index=False))

# %%
# The cost grows in proportion to the graph: CPU seconds of the whole job for three sizes.

import matplotlib.pyplot as plt

for size in (20_000, 10_000):
    graph = csbm.sample(size, homophily=0.7, seed=2, **settings)
    parts = convert_graph(graph, folder / f"{size}.shards", rows_per_shard=10_000)
    start = time.process_time()
    recalibrate_shards(model, parts, card, folder / f"{size}.answer")
    seconds[size] = time.process_time() - start

figure, axes = plt.subplots(figsize=(7, 2.8), layout="constrained")
axes.plot([size / 1000 for size in seconds], list(seconds.values()), "o-")
axes.set(xlim=(0, None), ylim=(0, None), xlabel="thousand nodes", ylabel="CPU seconds")
