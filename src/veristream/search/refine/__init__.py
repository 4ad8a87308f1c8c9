"""Refinement and determinism: what CSP observes of labelled transition systems."""
