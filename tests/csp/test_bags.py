"""Bags whose members keep values: states that differ only in the order of the members are one state.

The oracle sorts terms. Comments derive counts where that is short; elsewhere the oracle is the reference.
"""

from __future__ import annotations

from random import Random

import pytest

import veristream as vs
from tests.csp.texts import counts, network_of
from veristream.languages.csp.lower.network import read_models
from veristream.search.engine import check
from veristream.search.limits import Limits
from veristream.source import Source

BAGS = {
    # A member is at P(), Q(h), c.i -> P() for the value of h that it has read: none, none or 0, 1.
    # Two members: 10 multisets of the 4 places, twice for h. a toggles h, so not all of them are reached.
    "argument": (
        "var h = 0; P() = a{h = 1 - h;} -> Q(h); Q(i) = b -> c.i -> P(); S() = |||{2}@P();",
        (18, 30),
    ),
    "four of them": (
        "var h = 0; P() = a{h = h + 1;} -> Q(h); Q(i) = b.i -> c.i -> Skip; S() = |||{4}@P();",
        (132, 308),
    ),
    "forever": (
        "var h = 0; P() = a{h = (h + 1) % 4;} -> Q(h); Q(i) = b.i -> c.i -> P(); S() = |||{4}@P();",
        (444, 1224),
    ),
    "kept": (
        "var h = 0; P() = a{h = h + 1;} -> Q(h); Q(i) = b.i -> c.i -> Q(i); S() = |||{4}@P();",
        (344, 1088),
    ),
    "two values": (
        """var h = 0; P() = a{h = (h + 1) % 3;} -> Q(h, 2 - h);
        Q(i, j) = b.i -> R(j, i); R(k, l) = c.k.l -> P();
        S() = |||{3}@P();""",
        None,
    ),
    "received": (
        "channel c 2; P() = c?x -> e.x -> P(); E() = c!1 -> c!2 -> c!0 -> E(); S() = |||{3}@P() ||| E();",
        None,
    ),
    "received from outside": (
        """channel c 0; B() = |||{3}@P(); P() = c?x -> e.x -> P(); E() = c!1 -> c!2 -> E();
        S() = B() ||| E();""",
        None,
    ),
    # The members hand a value to each other: those that hold one and those that do not.
    "among themselves": (
        """channel c 0; P() = t{v = (v + 1) % 3;} -> H(v) [] c?x -> H(x); H(i) = c!i -> P() [] e.i -> P();
        var v = 0; S() = |||{3}@P();""",
        None,
    ),
    "matched": (
        """channel c 1; var a[3]; P() = c?x -> Q(x); Q(x) = c?a[x] -> e.x -> P() [] c!x -> e.x -> P();
        S() = (c!1 -> c!0 -> c!2 -> Skip) ||| (P() ||| P() ||| P());""",
        None,
    ),
    "channels of an array": (
        """channel c[2] 1; var h = 0; P() = a{h = 1 - h;} -> Q(h); Q(i) = b -> c[i]!i -> c[1 - i]?x -> P();
        S() = |||{3}@P();""",
        None,
    ),
    "barrier": (
        """var h = 0; P() = a{h = 1 - h;} -> Q(h); Q(i) = b.i -> s -> P(); E() = s -> E() [] u -> E();
        B() = |||{2}@P(); #alphabet B {s}; #alphabet E {s}; S() = B() || E();""",
        None,
    ),
    "ends of values": (
        """var h = 0; P() = a{h = h + 1;} -> Q(h); Q(i) = b.i -> R(i); R(i) = [i == 1 || h == 3] Skip;
        S() = |||{3}@P();""",
        None,
    ),
    "forked with values": (
        """var h = 0; P(i) = a.i{h = 1 - h;} -> Q(h); Q(j) = b.j -> P(j); C() = t{h = 1 - h;} -> D(h);
        D(x) = g -> (P(x) ||| P(1 - x) ||| P(x)); S() = C() ||| (z -> Skip);""",
        None,
    ),
    "killed and forked again": (
        """var h = 0; P() = a{h = 1 - h;} -> Q(h); Q(i) = b.i -> c.i -> P();
        R() = (|||{2}@P()) interrupt (k -> R());
        S() = ((|||{2}@P()) interrupt (k -> R())) ||| (z -> Skip);""",
        None,
    ),
    "different members": (
        """var h = 0; P(n) = a.n{h = (h + n) % 3;} -> Q(h); Q(i) = b.i -> c.i -> Stop;
        S() = P(1) ||| P(2) ||| P(1);""",
        None,
    ),
    # P(i) takes more than 64 values, so its argument becomes a slot: multisets of two of 70 places.
    "many constants": ("P(i) = a -> P((i + 1) % 70); S() = |||{2}@P(0);", (70 * 71 // 2, 70 * 69 + 70)),
    # One lists its members, the other counts them.
    "two bags": (
        """var h = 0; P() = a{h = 1 - h;} -> Q(h); Q(i) = b -> c.i -> P(); G() = g -> x -> G();
        B() = |||{2}@P(); #alphabet B {z}; C() = |||{2}@G(); #alphabet C {z}; S() = B() || C();""",
        None,
    ),
}


@pytest.mark.parametrize(("text", "expected"), BAGS.values(), ids=BAGS)
def test_the_order_of_members_does_not_matter(text: str, expected: tuple[int, int] | None) -> None:
    found = counts(text, "S")
    assert expected is None or found == expected


@pytest.mark.parametrize(
    "name", ["four of them", "among themselves", "killed and forked again", "ends of values"]
)
def test_native_code_sorts_too(name: str) -> None:
    text, _ = BAGS[name]
    (network,) = read_models(Source("m.csp", text + " #assert S() reaches no; #define no 1 == 2;"), {})
    (result,) = check(network, network.properties, Limits())
    assert isinstance(result.verdict, vs.Violated)
    assert (result.effort.states, result.effort.transitions) == counts(text, "S")


def test_a_bag_of_many_members_is_one_component() -> None:
    text = "var h = 0; P() = a{h = 1 - h;} -> Q(h); Q(i) = b.i -> Stop; S() = |||{50}@P();"
    network = network_of(text, "S")
    assert [component.name for component in network.components] == ["S", "P"]


FIRST = ("c!h -> P()", "c?x -> R(x, h)", "[h > 0] d -> Q(h)", "q!1.h -> P()", "q?y.z -> R(z, y)")
LATER = ("b.i -> P()", "c!i -> R(i, i)", "c?x -> R(i, x)", "[i == h] e -> Skip", "b.i -> Stop")
LAST = ("f.j -> P()", "c!j -> Q(i)", "[i > j] f -> Q(j)", "q!i.j -> P()", "Skip", "Stop")


def test_random_bags() -> None:
    chosen = Random(20)
    large = 0
    for _ in range(12):
        first, later, last = (" [] ".join(chosen.sample(parts, 2)) for parts in (FIRST, LATER, LAST))
        text = f"""var h = 0; channel c 0; channel q 1; P() = a{{h = (h + 1) % 2;}} -> Q(h) [] {first};
        Q(i) = {later}; R(i, j) = {last}; S() = |||{{2}}@P();"""
        large += counts(text, "S")[0] > 20
    assert large >= 6
