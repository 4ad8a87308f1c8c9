"""Translates Networks into the languages of other model checkers."""
