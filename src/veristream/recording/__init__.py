"""Recording what clients of a real broker did, as a history that `veristream audit` judges."""
