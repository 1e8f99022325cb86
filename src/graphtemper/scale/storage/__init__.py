"""Files of sharded graphs and of runs: arrays, shards, Parquet, results and workspaces."""
