from __future__ import annotations

import numpy as np
import pytest


def sample(seed, n=500, num_classes=4, overconfidence=1.5):
    """Probabilities and labels of an overconfident model."""
    rng = np.random.default_rng(seed)
    z = 1.5 * rng.normal(size=(n, num_classes))
    labels = (z + rng.gumbel(size=z.shape)).argmax(axis=1)
    e = np.exp(overconfidence * z)
    return e / e.sum(axis=1, keepdims=True), labels


@pytest.fixture(name="sample", scope="session")
def sample_fixture():
    return sample
