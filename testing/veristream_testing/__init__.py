"""For tests and benchmarks only, not part of the wheel: simulations of Kabis, runs of SPIN and TLC."""
