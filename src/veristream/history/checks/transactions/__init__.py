"""Checks of transactions: what a bucket shows, what it sends to those who join it, and what they find."""
