"""`hvar`: what nobody reads later is not part of the state; what somebody reads is.

The oracle keeps every value. Its states without the values of a variable that nobody reads must be ours.
"""

from __future__ import annotations

import pytest

from tests.csp import oracle
from tests.csp.texts import LIMIT, counts, network_of, read
from veristream.languages.csp import syntax as csp
from veristream.languages.csp.lower.network import read_models
from veristream.search.engine import check
from veristream.search.limits import Limits
from veristream.source import Source
from veristream.verdict import Holds, Violated
from veristream_testing.states import explore


def merged(text: str, *names: str) -> tuple[int, int]:
    """Counts the oracle's states and steps without some variables; merged ones must behave alike."""
    spec = read(text)
    kept = [at for at, variable in enumerate(spec.variables) if variable.name not in names]
    found = oracle.graph(spec, csp.Ref("P"), LIMIT)
    assert found.complete

    def key(state: int) -> tuple[object, ...]:
        whole = found.states[state]
        return (whole.term, tuple(whole.values[at] for at in kept), whole.buffers)

    steps: dict[tuple[object, ...], list[tuple[str, tuple[object, ...]]]] = {}
    for state, out in enumerate(found.steps):
        here = sorted(((event, key(after)) for event, after in out), key=repr)
        assert steps.setdefault(key(state), here) == here
    return len(steps), sum(map(len, steps.values()))


# Each text with the variables that nobody reads later. A comment derives the states and steps.
SCRATCH = {
    # x = 0, 1, 2.
    "copy": ("hvar t = 0; var x = 0; P() = a{t = x; x = (t + 1) % 3;} -> P();", ("t",), (3, 3)),
    "only written": (
        "hvar n = 0; P() = [x < 5] a{n = x * x; x = x + 1;} -> P(); var x = 0;",
        ("n",),
        (6, 5),
    ),
    "its own value": ("hvar n = 0; P() = a{n = (n + 1) % 50;} -> P();", ("n",), (1, 1)),
    "each other's": (
        "hvar u = 0; hvar v = 0; P() = a{v = u; u = (v + 1) % 7;} -> P();",
        ("u", "v"),
        (1, 1),
    ),
    # s is 0 at first and then always 0 + 1 + 2.
    "loop": (
        "hvar i = 0; var s = 0; P() = a{i = 0; s = 0; while (i < 3) {s = s + i; i = i + 1;}} -> P();",
        ("i",),
        (2, 2),
    ),
    # x: 0, 1, 2, 3, 0.
    "branches": (
        "hvar t = 0; var x = 0; P() = a{if (x == 3) {t = 0;} else {t = x + 1;} x = t;} -> P();",
        ("t",),
        (4, 4),
    ),
    "element": (
        "hvar t[3]; var x = 0; P() = a{t[0] = x; t[2] = t[1]; x = (x + 1) % 2;} -> P();",
        ("t",),
        (2, 2),
    ),
    # Both steps of two processes for each x; Q() reads what its own program has written.
    "two processes": (
        "hvar t = 0; var x = 0; Q() = b{t = x + 5; x = t % 2;} -> Q(); P() = (a{t = 9;} -> Skip) ||| Q();",
        ("t",),
        (4, 6),
    ),
    # c!1 and c?1 by turns.
    "of an input": (
        "channel c 1; hvar t = 0; var x = 0; P() = c!1 -> c?y{t = y; x = t + x - t;} -> P();",
        ("t",),
        (2, 2),
    ),
}


@pytest.mark.parametrize(("text", "names", "expected"), SCRATCH.values(), ids=SCRATCH)
def test_what_nobody_reads_later_is_no_part_of_the_state(
    text: str, names: tuple[str, ...], expected: tuple[int, int]
) -> None:
    found = explore(network_of(text), LIMIT)
    assert (len(found.states), found.transitions) == expected == merged(text, *names)
    assert counts(text.replace("hvar", "var"))[0] >= expected[0]


# Each text with the states and steps that it has as with `var`.
READ = {
    "guard": ("hvar n = 0; P() = [n < 3] a{n = n + 1;} -> P();", (4, 3)),
    "next program": ("hvar t = 0; var x = 0; P() = a{t = 1 - x;} -> b{x = t;} -> P();", (4, 4)),
    "one branch": (
        "hvar t = 5; var x = 0; P() = a{if (x == 2) {t = 0;} x = x + 1; x = t % 4;} -> P();",
        (2, 2),
    ),
    "message": ("hvar t = 0; channel c 1; P() = a{t = 1 - t;} -> c!t -> c?y -> P();", (6, 6)),
    "event": ("hvar t = 0; P() = a.t{t = 1 - t;} -> P();", (2, 2)),
    "argument": ("hvar t = 0; P() = a{t = 1 - t;} -> Q(t); Q(i) = b.i -> P();", (4, 4)),
    "through another": (
        "hvar u = 0; hvar v = 0; var x = 0; P() = a{v = u; u = (u + 1) % 3; x = v;} -> P();",
        (4, 4),
    ),
    # (t[0], t[1], x): (0, 0, 0), (1, 0, 1), (1, 1, 1), (1, 0, 1).
    "element": ("hvar t[2]; var x = 0; P() = a{t[x] = 1 - t[x]; x = t[0];} -> P();", (3, 3)),
    "loop": (
        "hvar i = 0; var s = 0; P() = [s < 4] a{while (i < 2) {s = s + 1; i = i + 1;} i = 1;} -> P();",
        (4, 3),
    ),
}


@pytest.mark.parametrize(("text", "expected"), READ.values(), ids=READ)
def test_what_is_read_later_stays_part_of_the_state(text: str, expected: tuple[int, int]) -> None:
    if text.startswith("hvar u"):  # v is written before it is read
        assert merged(text, "v") == expected
        found = explore(network_of(text), LIMIT)
        assert (len(found.states), found.transitions) == expected
    else:
        assert counts(text) == expected


def test_a_claim_that_reads_a_variable_keeps_it() -> None:
    text = "hvar n = 0; P() = a{n = (n + 1) % 50;} -> P(); #define big n == 49; #assert P() "
    (network,) = read_models(Source("m.csp", text + "reaches big; #assert P() deadlockfree;"), {})
    for result in check(network, network.properties, Limits()):
        assert isinstance(result.verdict, Holds)
        assert result.effort.states == 50
    (network,) = read_models(Source("m.csp", text + "|= [] !big;"), {})
    (result,) = check(network, network.properties, Limits())
    assert isinstance(result.verdict, Violated)
    (network,) = read_models(Source("m.csp", text + "deadlockfree;"), {})
    (result,) = check(network, network.properties, Limits())
    assert (result.effort.states, result.effort.transitions) == (1, 1)


def test_a_counter_that_nobody_reads_cannot_overflow() -> None:
    text = "hvar n = 2147483647; P() = a{n = n + 1;} -> P(); #assert P() deadlockfree;"
    (network,) = read_models(Source("m.csp", text), {})
    (result,) = check(network, network.properties, Limits())
    assert isinstance(result.verdict, Holds)
