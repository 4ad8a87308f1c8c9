"""How probable it is that hash compaction has omitted a state."""

from __future__ import annotations

from decimal import ROUND_CEILING, Context


def bound_omission(states: int, bits: int) -> float:
    """The probability that a search that ends with so many states has omitted one is at most this.

    Until the first omission, a new state is omitted if its hash is one of those of the k states found so
    far: with a probability of k / 2^b, if hashes are uniform. So the first omission comes before there are
    more than n states with a probability of at most (1 + 2 + ... + n) / 2^b = n (n + 1) / 2^(b + 1).
    Wolper and Leroy (Reliable Hashing without Collision Detection, CAV 1993) bound the probability that any
    two of N reachable states have the same hash by N (N - 1) / 2^(b + 1). But N is not known: it exceeds n
    if states were omitted. Here, n is what the search has counted.
    """
    return min(1.0, states * (states + 1) / 2 ** (bits + 1))


def tell_omission(bound: float, bits: int) -> str:
    """The bound in words."""
    if bound >= 1:
        return f"states were probably omitted: hashes of {bits} bits are too short (--hash-compact)"
    kept = f"hashes of {bits} bits were kept instead of states"
    return f"a state was omitted with a probability of at most {_round_up(bound)} ({kept})"


def _round_up(bound: float) -> str:
    """The number with two digits, not less than it is."""
    return f"{float(Context(prec=2, rounding=ROUND_CEILING).create_decimal(bound)):g}"
