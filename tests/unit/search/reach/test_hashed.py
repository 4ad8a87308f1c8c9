"""Hash compaction: exact counts with long hashes, omissions with short ones, paths, memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from veristream.ir.network import Network
from veristream.ir.oracle.interpret import Interpreter
from veristream.ir.text.read import read_network
from veristream.ir.verify import verify
from veristream.kernel.layout import decode, encode
from veristream.kernel.load import Kernel, load_kernel
from veristream.search.engine import check
from veristream.search.limits import Limits
from veristream.search.omission import bound_omission, tell_omission
from veristream.search.reach import compaction, fields
from veristream.search.reach.batch import Batch, code_of
from veristream.search.reach.compaction import HashedExploration, begin_hashed
from veristream.search.reach.explore import Exploration, begin
from veristream.search.reach.hashed import Hashes, add_hash
from veristream.search.reach.storage import Memory
from veristream.search.reach.visited import fingerprint
from veristream.source import Source
from veristream.verdict import Holds, Result, Unknown, Violated

GRID = """
network grid
var x: 0..299 = 0
var y: 0..299 = 0
component X { location a initial  edge a -> a { when x < 299 do { x := x + 1; } } }
component Y { location a initial  edge a -> a { when y < 299 do { y := y + 1; } } }
property big: always x + y <= 1000
property small: always x + y <= 200
property corner: reachable x + y == 598
property nowhere: reachable x + y == 599
property top: reachable true maximise x + y
property ahead: transition x' - y' <= 7
property unmet: always x > 400 implies y == 0
property goes_on: deadlockfree
property is_fair: ltl [] <> {x == y}
"""

WIDE_ROWS = """
network wide_rows
var a: 0..1000000000 = 0
var b: 0..1000000000 = 0
var c: 0..1000000000 = 0
var d: 0..1000000000 = 0
component A { location l initial  edge l -> l { when a < 59 do { a := a + 1; b := b + 1000003; } } }
component C { location l initial  edge l -> l { when c < 59 do { c := c + 1; d := d + 500009; } } }
component E { var e: 0..1000000000 = 0 location l initial
  edge l -> l { when e < 9 do { e := e + 1; } } }
property end: always a + c < 118
"""

SWITCHES = "\n".join(
    [
        "network switches",
        *(f"var v{k}: 0..1000000000 = 0" for k in range(15)),
        *(
            f"component C{k} {{ location l initial  edge l -> l {{ do {{ v{k} := 999999999 - v{k}; }} }} }}"
            for k in range(15)
        ),
        "property one: always v0 >= 0",
    ]
)

FAN = """
network fan
var n: 0..9999 = 0
component C { location a initial  location b
  edge a -> b { select k: 0..9999 action pick(k) do { n := k; } }
  edge b -> a { action back when n > 9000 } }
property last: reachable n == 9999
"""
"""The first state has more successors than a buffer holds at first, and is found again by some of them."""

FAILING = """
network failing
var n: 0..9 = 0
var flag: bool
component C { location a initial  edge a -> a { action up do { n := n + 1; } } }
component D { location a initial  edge a -> a { do { flag := not flag; } } }
property low: always n < 100
"""


def read(text: str) -> Network:
    network = read_network(Source("test.net", text))
    verify(network)
    return network


def verdicts(network: Network, names: Sequence[str], limits: Limits) -> list[Result]:
    by_name = {one.name: one for one in network.properties}
    return list(check(network, [by_name[name] for name in names], limits))


def begun(network: Network, bits: int, watched: str) -> tuple[Kernel, HashedExploration, Exploration]:
    """The explorations with hashes and with keys, which watch for one property."""
    batch = Batch()
    batch.add(next(one for one in network.properties if one.name == watched))
    kernel = load_kernel(network, batch.watch())
    initial = encode(kernel.layout, network, Interpreter(network).initial())
    plan = batch.plan()
    code = code_of(kernel, plan, False)
    return (
        kernel,
        begin_hashed(code, initial, plan, bits),
        begin(code, initial, replace(plan, compact=True)),
    )


def finish(exploration: Exploration) -> None:
    while not exploration.complete:
        exploration.advance()


@pytest.mark.parametrize("text", [GRID, WIDE_ROWS, FAN], ids=["one word", "several words", "many steps"])
@pytest.mark.parametrize("bits", [64, 63, 57])
def test_with_long_hashes_the_counts_are_exact(
    text: str, bits: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compaction, "MOVED_AT_ONCE", 1000)  # a table is moved in many parts
    network = read(text)
    _kernel, hashed, exact = begun(network, bits, network.properties[0].name)
    finish(hashed)
    finish(exact)
    assert hashed.counts == exact.counts
    assert 0 < hashed.omission < 1e-6


def test_wider_keys_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fields, "FIRST_BITS", 2)
    widened = []
    widen = Memory.widen
    monkeypatch.setattr(Memory, "widen", lambda *given: widened.append(widen(*given)) or widened[-1])
    _kernel, hashed, _exact = begun(read(WIDE_ROWS), 64, "end")
    while not hashed.complete:
        hashed.advance(100)  # rows are freed again and again
    assert sum(widened) >= 3 and hashed.state_count == 60 * 60 * 10


@pytest.mark.parametrize("text", [GRID, WIDE_ROWS, FAN], ids=["one word", "several words", "many steps"])
def test_paths_are_those_of_an_exact_search(text: str) -> None:
    network = read(text)
    kernel, hashed, exact = begun(network, 64, network.properties[0].name)
    finish(exact)
    rng = np.random.default_rng(7)
    while not hashed.complete:
        hashed.advance(5000)
        for index in {0, hashed.state_count - 1, *rng.integers(hashed.state_count, size=3).tolist()}:
            states = [decode(kernel.layout, network, row) for row in hashed.rows_to(int(index))]
            # With one worker both find states in the same order.
            along_levels = [decode(kernel.layout, network, row) for row in exact.rows_to(int(index))]
            assert states == along_levels


@pytest.mark.parametrize("bits", [8, 10, 12])
def test_with_short_hashes_states_are_omitted(bits: int) -> None:
    _kernel, hashed, _exact = begun(read(GRID), bits, "big")
    finish(hashed)
    assert hashed.state_count <= 2**bits
    assert hashed.omission == 1.0


def test_omissions_are_as_frequent_as_those_of_random_hashes() -> None:
    """Of 90,000 states with hashes of 28 bits, about 15 have the hash of an earlier one."""
    _kernel, hashed, _exact = begun(read(GRID), 28, "big")
    finish(hashed)
    assert 90_000 - 40 < hashed.state_count < 90_000


@pytest.mark.parametrize("shape", [(16384,), (128, 128), (8, 8, 8, 8, 4), (2,) * 14])
def test_the_upper_bits_of_fingerprints_are_uniform(shape: tuple[int, ...]) -> None:
    """Of 16,384 rows, about 8 have the upper 24 bits of another one; the digits are words of the rows."""
    prints = set()
    for place in np.ndindex(*shape):
        row = np.array(place, np.int64)
        prints.add((int(fingerprint(int(row.ctypes.data), len(shape))) & (1 << 64) - 1) >> 40)
    assert 0 <= 16384 - len(prints) <= 24


def table_of(bits: int, slots: int) -> tuple[np.ndarray, Hashes]:
    size = -(-bits // 8)
    table = np.zeros(size * (slots + 1) + 8, np.uint8)
    mask = -1 if bits == 64 else (1 << bits) - 1
    home = min(bits, 32)
    return table, Hashes(
        int(table.ctypes.data), slots, size, mask, 64 - bits, bits - home, home, tree=0, tree_limit=0
    )


@pytest.mark.parametrize("bits", [8, 12, 31, 32, 33, 40, 48, 63, 64])
def test_every_hash_is_new_once(bits: int) -> None:
    table, hashes = table_of(bits, 601)
    top = (1 << bits) - 1
    wanted = {
        0,
        1,
        top,
        top - 1,
        *np.random.default_rng(3).integers(top, size=500, dtype=np.uint64).tolist(),
    }
    signed = [hash_ - (1 << 64) if hash_ >> 63 else hash_ for hash_ in wanted]
    assert all(add_hash(hashes, hash_) for hash_ in signed)
    assert not any(add_hash(hashes, hash_) for hash_ in signed)
    assert table[-7:].sum() == 0


@pytest.mark.parametrize("bits", [32, 40, 48])
def test_a_state_takes_less_memory(bits: int) -> None:
    """Also while states wait to be expanded, which are stored as in an exact search."""
    _kernel, hashed, exact = begun(read(SWITCHES), bits, "one")
    most = 0
    while not hashed.complete:
        hashed.advance(1000)
        most = max(most, hashed.byte_count)
    finish(exact)
    table = hashed.memory.table
    assert table.byte_count == bits // 8 * table.slot_count
    assert hashed.state_count == exact.state_count == 2**15
    assert most < exact.byte_count
    assert hashed.byte_count < exact.byte_count - hashed.state_count


def test_the_bound() -> None:
    assert bound_omission(1, 8) == 1 / 256
    assert bound_omission(10**9, 64) == pytest.approx(0.0271, rel=1e-2)
    assert bound_omission(10**6, 32) == 1.0
    assert "at most 3.2e-07" in tell_omission(3.1001e-07, 40)
    assert "at most 0.1 " in tell_omission(0.0999, 40)
    assert "at most 1.6e-15 " in tell_omission(1.5939e-15, 64)
    assert "too short" in tell_omission(1.0, 8)


def test_what_needs_all_states_carries_the_probability() -> None:
    names = ["big", "nowhere", "top", "unmet"]
    big, nowhere, top, unmet = verdicts(read(GRID), names, Limits(hash_bits=64))
    bound = bound_omission(90_000, 64)
    words = tell_omission(bound, 64)
    assert big.verdict == Holds(words, omission=bound)
    assert nowhere.verdict == Violated(f"no reachable state satisfies it; {words}", omission=bound)
    assert isinstance(top.verdict, Holds) and top.verdict.trace is not None
    assert (top.verdict.reason, top.verdict.omission) == (f"max x + y = 598; {words}", bound)
    assert isinstance(unmet.verdict, Holds) and unmet.verdict.vacuous is not None
    assert {one.effort.hash_bits for one in (big, nowhere, top, unmet)} == {64}


def test_what_a_trace_proves_is_exact() -> None:
    names = ["small", "corner", "ahead", "goes_on"]
    found = verdicts(read(GRID), names, Limits(hash_bits=64))
    exact = verdicts(read(GRID), names, Limits(workers=1))
    for one, other in zip(found, exact, strict=True):
        assert one.verdict.omission is None and one.verdict.reason == other.verdict.reason
        assert one.verdict.trace is not None and other.verdict.trace is not None
        assert one.verdict.trace.steps == other.verdict.trace.steps
        assert not one.verdict.trace.shortest and other.verdict.trace.shortest  # it might be omitted


def test_a_violation_is_found_in_spite_of_omissions() -> None:
    (small,) = verdicts(read(GRID), ["small"], Limits(hash_bits=16))
    assert isinstance(small.verdict, Violated) and small.verdict.omission is None
    assert small.verdict.trace is not None and len(small.verdict.trace.steps) == 202
    assert small.effort.states < 20_301


def test_hashes_that_are_too_short_decide_nothing() -> None:
    big, nowhere, top = verdicts(read(GRID), ["big", "nowhere", "top"], Limits(hash_bits=10))
    for one in (big, nowhere, top):
        assert isinstance(one.verdict, Unknown) and one.verdict.omission == 1.0
        assert "hashes of 10 bits are too short (--hash-compact)" in one.verdict.reason
    assert top.verdict.trace is not None and top.verdict.reason.startswith("max x + y = ")


def test_a_fault_has_its_run() -> None:
    (low,) = verdicts(read(FAILING), ["low"], Limits(hash_bits=40))
    assert isinstance(low.verdict, Unknown) and low.verdict.fault is not None
    assert low.verdict.trace is not None and len(low.verdict.trace.steps) == 10
    assert not low.verdict.trace.shortest


def test_limits_give_unknown() -> None:
    (big,) = verdicts(read(GRID), ["big"], Limits(hash_bits=40, states_max=5000))
    assert big.verdict == Unknown("the limit of 5000 states was reached (--max-states)")
    wide = read(GRID.replace("299", "1999"))
    (big,) = verdicts(wide, ["goes_on"], Limits(hash_bits=64, memory_max_mib=1))
    assert (
        isinstance(big.verdict, Unknown) and "the memory budget of 1 MiB is used up" in big.verdict.reason
    )


def test_it_is_not_reduced_and_other_searches_are_exact() -> None:
    limits = Limits(hash_bits=64, reduction=True)
    big, is_fair = verdicts(read(GRID), ["big", "is_fair"], limits)
    assert (big.effort.states, big.effort.reduced) == (90_000, False)
    assert is_fair.effort.hash_bits is None and is_fair.verdict.omission is None
