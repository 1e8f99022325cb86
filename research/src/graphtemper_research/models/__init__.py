"""A graph convolutional network and its training losses, for the experiments."""

from graphtemper_research.models.gcn import GCN

__all__ = ["GCN"]
