"""What only our tests and benches use, outside of the wheel: simulations of Kabis, runs of SPIN and TLC."""
