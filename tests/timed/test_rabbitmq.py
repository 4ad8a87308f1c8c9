"""RabbitMQ with Kerberos: all known verdicts and proven bounds."""

from __future__ import annotations

from pathlib import Path

import pytest

import veristream as vs
from tests.known import differences_of
from veristream.expected import KnownModel, find_known
from veristream.report.messages import movers

MODELS = Path(__file__).parents[2] / "models"
KNOWN = find_known(MODELS, ["rabbitmq"])
SECURE = "A[] !(Producer(1).Publish || Consumer(3).Deliver)"


def params(file: str) -> list[object]:
    """Returns the known models of one file."""
    return [pytest.param(known, id=known.name) for known in KNOWN if known.path.name == file]


@pytest.mark.models
@pytest.mark.parametrize("known", params("rabbitmq.xml"))
def test_every_verdict_on_the_broker_is_the_expected_one(known: KnownModel) -> None:
    assert differences_of(known) == []


@pytest.mark.parametrize("known", params("tickets.xml"))
def test_every_verdict_on_tickets_is_the_expected_one(known: KnownModel) -> None:
    assert differences_of(known) == []


@pytest.mark.models
@pytest.mark.parametrize(("scenario", "zones", "steps"), [(1, 182_268, 783_051), (2, 324_032, 1_442_544)])
def test_figure_12_is_searched_exhaustively(scenario: int, zones: int, steps: int) -> None:
    """The largest queries of the paper; our counts are pinned to reveal changes of the search."""
    (result,) = vs.check(MODELS / "rabbitmq/rabbitmq.xml", [SECURE], constants={"SCENARIO": scenario})
    assert isinstance(result.verdict, vs.Holds)
    assert (result.effort.states, result.effort.transitions) == (zones, steps)


@pytest.mark.models
def test_a_dead_producer_is_noticed_after_ten_exactly() -> None:
    (known,) = (one for one in KNOWN if one.name == "rabbitmq_dead_producer_repaired")
    query = "sup{Producer(0).Dead && !BrokerP(0).Close}: t"
    (result,) = vs.check(known.path, [query], constants=known.constants)
    assert isinstance(result.verdict, vs.Holds)
    assert result.verdict.reason == "max t = 10"


def test_an_intruder_replays_between_client_and_server() -> None:
    (result,) = vs.check(MODELS / "rabbitmq/tickets.xml", ["E<> Intruder.In"])
    assert isinstance(result.verdict, vs.Holds)
    assert result.verdict.trace is not None
    named = {name for step in result.verdict.trace.steps for name in movers(step)}
    assert {"Client", "Server", "Intruder"} <= named
