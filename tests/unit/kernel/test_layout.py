"""Rows: every state has exactly one."""

from __future__ import annotations

import numpy as np
from hypothesis import HealthCheck, given, settings

from tests.strategies import networks
from veristream.ir.expr import BOOL, Type
from veristream.ir.network import Channel, ChannelKind, Component, Location, Network, Variable
from veristream.ir.state import State
from veristream.kernel.layout import decode, encode, lay_out
from veristream_testing.states import explore


def network_of(*variables: Variable, channels: tuple[Channel, ...] = ()) -> Network:
    component = Component("C", (Location("a"), Location("b"), Location("c")), (), "a")
    return Network("n", variables=variables, channels=channels, components=(component,))


def test_values_take_the_bits_that_their_range_needs() -> None:
    network = network_of(
        Variable("flag", BOOL),
        Variable("wide", Type(-5, 1000), initial=(0,)),
        Variable("fixed", Type(7, 7), initial=(7,)),
    )
    layout = lay_out(network)
    widths = {name: slot.width for name, slot in layout.variables.items()}
    assert widths == {"flag": 1, "wide": 10, "fixed": 0}
    assert layout.locations[0].width == 2
    assert layout.word_count == 1


def test_array_elements_never_straddle_words() -> None:
    layout = lay_out(network_of(Variable("a", Type(0, 4), (30,), (0,) * 30)))
    slot = layout.variables["a"]
    assert slot.width == 4  # three bits, rounded up to a power of two
    places = [slot.place(i) for i in range(30)]
    assert len(set(places)) == 30
    assert all(shift + slot.width <= 64 for _, shift in places)


def test_a_queue_longer_than_a_word_is_split() -> None:
    channel = Channel("q", ChannelKind.BUFFER, (Type(-10, 900), BOOL), capacity=9)
    network = network_of(channels=(channel,))
    layout = lay_out(network)
    wide, narrow = layout.queues["q"].parts
    assert (len(wide.chunks), wide.per_chunk, wide.width) == (2, 6, 10)
    assert (len(narrow.chunks), narrow.per_chunk) == (1, 9)
    messages = tuple((100 * k - 10, k % 2) for k in range(9))
    for count in range(10):
        state = State((), (messages[:count],), (2,))
        assert decode(layout, network, encode(layout, network, state)) == state


@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(networks())
def test_states_and_rows_are_one_to_one(network: Network) -> None:
    layout = lay_out(network)
    states = explore(network, 50).states
    rows = {encode(layout, network, state).tobytes(): state for state in states}
    assert len(rows) == len(states)
    for bytes_, state in rows.items():
        assert decode(layout, network, np.frombuffer(bytes_, dtype=np.uint64)) == state
