"""Networks in the languages of other model checkers, and runs of these checkers on them."""
