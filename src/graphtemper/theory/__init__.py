"""The theory: closed forms, quadrature, finite degree, the block model, the label-free fit."""

from __future__ import annotations

from graphtemper.theory.closed_forms import (
    aggregated_moments,
    confidence_accuracy_curve,
    direction,
    ece_bound,
    finite_degree_temperature,
    mean_abs_logit,
    optimal_temperature,
    population_accuracy,
    population_ece,
    population_gap,
    self_loop_zero_crossing,
    signal_coefficient,
    signal_ratio,
    slope,
    slope_covariate,
    slope_from_moments,
    slope_limit_high_snr,
    slope_limit_low_snr,
    slope_self_loop,
    temperature_covariate,
)
from graphtemper.theory.heterogeneity import (
    beta_homophily,
    degree_gain,
    degree_temperature,
    mixed_homophily_gain,
    mixed_homophily_temperature,
)
from graphtemper.theory.many_classes import multiclass_temperature, slope_multiclass

__all__ = [
    "aggregated_moments",
    "beta_homophily",
    "confidence_accuracy_curve",
    "degree_gain",
    "degree_temperature",
    "direction",
    "ece_bound",
    "finite_degree_temperature",
    "mean_abs_logit",
    "mixed_homophily_gain",
    "mixed_homophily_temperature",
    "multiclass_temperature",
    "optimal_temperature",
    "population_accuracy",
    "population_ece",
    "population_gap",
    "self_loop_zero_crossing",
    "signal_coefficient",
    "signal_ratio",
    "slope",
    "slope_covariate",
    "slope_from_moments",
    "slope_limit_high_snr",
    "slope_limit_low_snr",
    "slope_multiclass",
    "slope_self_loop",
    "temperature_covariate",
]
