"""Values of TLA+, and the operators of the standard modules."""
