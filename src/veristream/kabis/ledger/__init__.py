"""What is decided: the replicated state machine, its rules, its proofs, and following the chain."""
