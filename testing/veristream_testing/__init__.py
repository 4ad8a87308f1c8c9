"""For tests and benchmarks only, not part of the wheel: simulations, oracles, runs of SPIN and TLC."""
