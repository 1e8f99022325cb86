"""Recalibration of logits on disk, without the graph and the model."""
