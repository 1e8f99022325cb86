"""Conversion of graphs and tables to shards."""
