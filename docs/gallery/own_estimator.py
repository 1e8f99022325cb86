"""An estimator of your own.

Compare an idea of yours with the published estimators, on the same graphs.

An estimator is a class with `fit`, `estimate` and `carries`. It sees an `Observation`: logits,
probabilities, and perturbed passes of the model, never labels of the target.
"""

# %%
# The idea: the share of nodes whose prediction agrees with most of their neighbours', relative to
# the source's.

import numpy as np

from graphtemper import Observation, csbm, estimators, shifts
from graphtemper.models import SIGN


class NeighbourAgreement:
    def fit(self, source, labels):
        accuracy = (source.predictions == np.asarray(labels)).mean()
        self.ratio_ = accuracy / self._agreement(source)
        return self

    def estimate(self, target):
        value = min(self.ratio_ * self._agreement(target), 1.0)
        return estimators.Estimate(value, 0.0, 1.0, "neighbour agreement")

    @property
    def carries(self):
        return {"ratio": self.ratio_}

    @staticmethod
    def _agreement(observation):
        classes = observation.predictor(observation.graph).argmax(axis=1)
        a, b = observation.graph.edges.T
        return (classes[a] == classes[b]).mean()


# %%
# Fit it and three published estimators at the source.

settings = {"degree": 8, "homophily": 0.8, "snr": 1.0, "num_features": 8}
source = csbm.sample(2000, seed=1, **settings)
model = SIGN(hops=1).fit(source, range(1000))
at_source = Observation(model, source, range(1000, 2000))
methods = (NeighbourAgreement(), estimators.ATC(), estimators.DoC(), estimators.GDE())
fitted = [method.fit(at_source, source.labels[1000:]) for method in methods]

# %%
# Targets with more and more feature noise.

fresh = csbm.sample(2000, seed=2, **settings)
levels, truth, table = (0.0, 0.5, 1.0, 1.5, 2.0), [], []
for level in levels:
    target = shifts.noise(level)(fresh, seed=3) if level else fresh
    truth.append((model(target).argmax(axis=1) == target.labels).mean())
    table.append([method.estimate(Observation(model, target)).value for method in fitted])

names = [type(method).__name__ for method in methods]
errors = np.abs(np.array(table) - np.array(truth)[:, None]).mean(axis=0)
for name, error in zip(names, errors, strict=True):
    print(f"{name:20} mean error {error:.3f}")

# %%
# Estimates against the truth.

import matplotlib.pyplot as plt

figure, axes = plt.subplots(figsize=(7, 3.2), layout="constrained")
axes.plot(levels, truth, "k--", label="truth")
for name, values in zip(names, np.array(table).T, strict=True):
    axes.plot(levels, values, "o-", label=name)
axes.set(xlabel="feature noise", ylabel="accuracy")
axes.legend(ncols=2)
