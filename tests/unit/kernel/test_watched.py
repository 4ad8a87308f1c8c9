"""What is watched about steps, by code beside the relation or inside of it, as the interpreter says."""

from __future__ import annotations

import ctypes
from collections import Counter

import numpy as np
import pytest

from veristream.ir.expr import Binary, Const, Load, Primed
from veristream.ir.network import Network
from veristream.ir.oracle.evaluate import ModelFault
from veristream.ir.oracle.interpret import Interpreter, Taken
from veristream.ir.property import Occurs, Silent
from veristream.ir.state import State
from veristream.ir.text.read import read_network
from veristream.kernel.layout import decode, encode
from veristream.kernel.load import load_kernel
from veristream.kernel.watch import ActionTest, Inside, Watch
from veristream.kernel.watched.inside import inside_of
from veristream.source import Source
from veristream_testing.states import explore

# `put` and `got` carry values of the state, a message, what a partner sends; `tau` is invisible.
DERIVABLE = """
network derivable
var n: 0..3 = 0
var wide[3]: 0..4000000000 = [7, 8, 9]
channel queue: buffer 2 (0..3, bool)
channel meet: rendezvous (0..9)
component A {
  location here initial
  edge here -> here { action put(n, 1)  send queue(n, n > 1)  do { n := (n + 1) mod 4; } }
  edge here -> here { tau back  when n > 0  do { n := n - 1; } }
  edge here -> here { send meet(n + 2) }
}
component B {
  location here initial
  edge here -> here { action got(v, n)  receive queue(?v, ?b) }
  edge here -> here { action met(x)  when x > 2  receive meet(?x) }
}
"""
# A selected value is not visible in the step.
HIDDEN = """
network hidden
var n: 0..5 = 0
component A {
  location here initial
  edge here -> here { select i: 0..2  action pick(i, n)  do { n := (n + i) mod 6; } }
  edge here -> here { action rest(n)  do { n := 0; } }
}
"""
GROWS = Binary(">", Primed(Load("n")), Load("n"))
FAILS = Binary("==", Binary("div", Const(6), Load("n")), Const(3))


def network_of(text: str) -> Network:
    return read_network(Source("watched.net", text))


def watched(network: Network, watch: Watch, state: State) -> Counter[object]:
    """What the kernel writes for a state: action, mask, next state and arguments of each step."""
    kernel = load_kernel(network, watch)
    row = encode(kernel.layout, network, state)
    capacity, words = 64, len(row)
    rows = np.zeros((capacity, words + watch.argument_count), np.uint64)
    entries = np.zeros(capacity, np.int64)
    kind = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_void_p] * 3, ctypes.c_int64)
    call = kind(kernel.successors)
    count = call(row.ctypes.data, rows.ctypes.data, entries.ctypes.data, capacity)
    assert count >= 0
    if count > 0:
        few = rows.copy()
        assert call(row.ctypes.data, few.ctypes.data, entries.copy().ctypes.data, count - 1) == -1
    found: Counter[object] = Counter()
    for line, entry in zip(rows[:count], entries[:count], strict=True):
        index, mask = int(entry) & 0xFFFFFFFF, (int(entry) >> 32) & 0x7FFFFFFF
        if entry < 0:
            found["fails", index] += 1
            continue
        after = decode(kernel.layout, network, line[:words])
        argument_count = len(Interpreter(network).actions[index].label.arguments)
        given = tuple(int(word) for word in line[words:][:argument_count])
        found[index, mask, after, given] += 1
    return found


def holds(test: ActionTest, interpreter: Interpreter, before: State, step: Taken) -> bool:
    if isinstance(test, Occurs | Silent):
        return interpreter.occurs(test, step)
    return interpreter.holds_step(test, before, step.state)


def interpreted(network: Network, watch: Watch, state: State) -> Counter[object]:
    interpreter = Interpreter(network)
    found: Counter[object] = Counter()
    for step in interpreter.steps(state):
        try:
            bits = [holds(test, interpreter, state, step) for test in watch.actions]
        except ModelFault:
            found["fails", step.action] += 1
            continue
        given = step.arguments if watch.argument_count else ()
        found[step.action, sum(bit << i for i, bit in enumerate(bits)), step.state, given] += 1
    return found


PUT_ANY, PUT_2, GOT, GOT_1, MET = (
    Occurs("put"),
    Occurs("put", (2, None)),
    Occurs("got", (None, 3)),
    Occurs("got", (1, None)),
    Occurs("met", (4,)),
)
NEVER = (Occurs("put", (2, 0)), Occurs("put", (2,)), Occurs("other"))
PICK, REST = Occurs("pick", (2, None)), Occurs("rest", (0,))


@pytest.mark.parametrize(
    ("text", "watch", "inside"),
    [
        (DERIVABLE, Watch(actions=(Silent(), PUT_ANY)), Inside()),
        (DERIVABLE, Watch(actions=(PUT_2, GOT, GOT_1, MET, *NEVER)), Inside()),
        (DERIVABLE, Watch(actions=(GROWS, MET, Silent())), Inside()),
        (DERIVABLE, Watch(actions=(PUT_2, FAILS)), Inside()),
        (DERIVABLE, Watch(argument_count=2), Inside()),
        (DERIVABLE, Watch(actions=(GROWS, GOT_1), argument_count=2), Inside()),
        (HIDDEN, Watch(actions=(Occurs("pick"), REST)), Inside()),
        (HIDDEN, Watch(actions=(REST, PICK, GROWS)), Inside((PICK,))),
        (HIDDEN, Watch(actions=(GROWS, PICK, FAILS)), Inside((PICK,))),
        (HIDDEN, Watch(argument_count=2), Inside((), 2)),
        (HIDDEN, Watch(actions=(GROWS, PICK, REST), argument_count=2), Inside((PICK,), 2)),
    ],
)
def test_actions_and_arguments_are_those_of_the_interpreter(
    text: str, watch: Watch, inside: Inside
) -> None:
    network = network_of(text)
    assert inside_of(network, watch) == inside
    states = explore(network, 1000).states
    assert len(states) == {"derivable": 40, "hidden": 6}[network.name]
    seen: set[int] = set()
    for state in states:
        expected = interpreted(network, watch, state)
        assert watched(network, watch, state) == expected
        seen |= {one[1] for one in expected if isinstance(one, tuple) and one[0] != "fails"}
    assert len(seen) > 1 or not watch.actions, "no test distinguishes the steps"


def test_what_is_watched_outside_shares_the_relation_and_what_is_inside_does_not() -> None:
    network = network_of(HIDDEN)
    plain, rest, pick = (load_kernel(network, Watch(actions=tests)) for tests in ((), (REST,), (PICK,)))
    assert plain.code[0] is rest.code[0]
    assert plain.code[0] is not pick.code[0]
    assert plain.successors != rest.successors
