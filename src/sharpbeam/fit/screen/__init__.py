"""Fitting a screen: hidden vectors of a model, clusters, candidate sets, and the fidelity that they reach."""
