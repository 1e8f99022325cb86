"""Files of sharded graphs and of results: shards, Parquet and directories."""
