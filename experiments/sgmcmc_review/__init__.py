"""Stochastic gradient MCMC: step sizes, regressions, networks, ratings and dependent data."""
