"""The theory: closed forms, quadrature, finite degree, the block model."""

from __future__ import annotations

from graphtemper.temperature.scaling import ece_bound
from graphtemper.theory.closed_forms import (
    aggregated_moments,
    optimal_temperature,
    self_loop_zero_crossing,
    signal_coefficient,
    signal_ratio,
    slope,
    slope_covariate,
    slope_limit_high_snr,
    slope_limit_low_snr,
    slope_multiclass,
    slope_self_loop,
    temperature_covariate,
)
from graphtemper.theory.finite_degree import (
    finite_degree_accuracy,
    finite_degree_ece,
    finite_degree_temperature,
    optimal_scale,
)
from graphtemper.theory.gaussian import (
    mean_abs_logit,
    population_accuracy,
    population_ece,
    population_gap,
    slope_from_moments,
)

__all__ = [
    "aggregated_moments",
    "ece_bound",
    "finite_degree_accuracy",
    "finite_degree_ece",
    "finite_degree_temperature",
    "mean_abs_logit",
    "optimal_scale",
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
