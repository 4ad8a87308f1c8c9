"""Refinement and determinism in the text form: read, printed, read back, verified, exported."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.event_oracle import process
from tests.strategies import networks, properties
from veristream.errors import ModelError
from veristream.export.promela import to_promela
from veristream.export.tla import to_tla
from veristream.ir.expr import Load
from veristream.ir.network import Network
from veristream.ir.property import (
    Always,
    Deterministic,
    Fairness,
    Property,
    RefinementModel,
    Refines,
)
from veristream.ir.text.printer import print_network
from veristream.ir.text.read import read_network
from veristream.ir.vacuity import antecedents, initially
from veristream.ir.verify import verify
from veristream.source import Source

OUTER = """
network outer
const N = 2
component P { location l initial  edge l -> l { select k: 0..N  action put(k) } }
property plain: refines { network spec component S { location l initial } }
property same: refines<T> { network spec; component S { location l initial }; };
property more: refines<F> {
  network spec
  const M = N + 1
  var x: 0..M
  component S { location l initial  edge l -> l { action put(x)  do { x := (x + 1) mod N } } }
  property inner: deterministic
} under strong-global
property most: refines<FD> { network empty }
property d: deterministic
"""


def read(text: str, **constants: int) -> Network:
    return read_network(Source("model.net", text), constants)


def claims(network: Network) -> dict[str, object]:
    return {property_.name: property_.claim for property_ in network.properties}


def test_read() -> None:
    network = read(OUTER)
    found = claims(network)
    assert found["d"] == Deterministic()
    models = {n: c.model for n, c in found.items() if isinstance(c, Refines)}
    assert models == {"plain": "T", "same": "T", "more": "F", "most": "FD"}
    assert found["plain"] == found["same"]
    assert found["most"] == Refines(Network("empty"), "FD")
    assert network.properties[2].fairness is Fairness.STRONG_GLOBAL
    more = found["more"]
    assert isinstance(more, Refines)
    assert [p.claim for p in more.specification.properties] == [Deterministic()]


def test_a_specification_sees_the_constants_around_it() -> None:
    more = claims(read(OUTER, N=5))["more"]
    assert isinstance(more, Refines)
    assert more.specification.variables[0].type.high == 6
    with pytest.raises(ModelError, match="has no constant `M`"):
        read(OUTER, M=5)


def test_a_specification_sees_nothing_else() -> None:
    text = "network n var v: 0..1 property p: refines { network s property q: always v == 0 }"
    with pytest.raises(ModelError, match="unknown name `v`"):
        read(text)


def test_round_trip() -> None:
    network = read(OUTER)
    assert read(print_network(network)) == network


@settings(deadline=None, max_examples=60, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_round_trip_of_random_specifications(data: st.DataObject) -> None:
    network, specification = data.draw(networks()), data.draw(networks())
    inner = data.draw(properties(specification))
    models: tuple[RefinementModel, ...] = ("T", "F", "FD")
    claim = Refines(replace(specification, properties=(inner,)), data.draw(st.sampled_from(models)))
    fairness = data.draw(st.sampled_from(Fairness))
    wanted = (Property("p", claim, fairness), Property("q", Deterministic(), fairness))
    network = replace(network, properties=wanted)
    verify(network)
    assert read(print_network(network)) == network


def test_the_words_can_still_be_names() -> None:
    text = """
    network n
    var `refines`: bool
    var `deterministic`: bool
    component P { location l initial  edge l -> l { action `refines` } }
    property p: `refines` == true leadsto `deterministic` == true
    """
    network = read(text)
    assert read(print_network(network)) == network


def test_a_specification_is_verified() -> None:
    wrong = Network("wrong", properties=(Property("q", Always(Load("nowhere"))),))
    with pytest.raises(ModelError, match="nowhere"):
        verify(Network("n", properties=(Property("p", Refines(wrong, "F")),)))


def test_what_is_wrong_inside_is_shown_inside() -> None:
    text = "network n property p: refines<F> { network s component S { location l } }"
    with pytest.raises(ModelError, match="no initial location") as caught:
        read(text)
    assert caught.value.span.start > text.index("component")
    with pytest.raises(ModelError):
        read("network n property p: refines<X> { network s }")


@pytest.mark.parametrize("claim", [Deterministic(), Refines(process("0 a 1"), "F")])
def test_spin_and_tlc_have_no_such_claim(claim: Deterministic | Refines) -> None:
    network = replace(process("0 a 1"), properties=(Property("p", claim),))
    with pytest.raises(ModelError, match="is not a formula of states"):
        to_promela(network, network.properties[0])
    assert to_tla(network, "Model").module == to_tla(replace(network, properties=()), "Model").module


@pytest.mark.parametrize("claim", [Deterministic(), Refines(process("0 a 1"))])
def test_no_condition_makes_them_vacuous(claim: Deterministic | Refines) -> None:
    assert antecedents(Property("p", claim)) == ()
    assert initially(Property("p", claim)) is None
