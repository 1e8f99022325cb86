"""The in-distribution protocol of GATS."""
