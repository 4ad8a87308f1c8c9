"""The papers' systems in CSP#: all expected verdicts, and the processes named in charts."""

from __future__ import annotations

from pathlib import Path

import pytest

import veristream as vs
from tests.known import differences_of
from veristream.expected import KnownModel, find_known
from veristream.report.messages import movers

MODELS = Path(__file__).parents[2] / "models"
FOLDERS = ("kafka", "kafka_intruder", "kafka_kerberos", "kafka_secured", "nsq")
KNOWN = [pytest.param(known, id=known.name) for known in find_known(MODELS, FOLDERS)]


@pytest.mark.models
@pytest.mark.parametrize("known", KNOWN)
def test_every_verdict_is_the_expected_one(known: KnownModel) -> None:
    assert differences_of(known) == []


def who_acts(file: str, goal: str) -> set[str]:
    """Returns the processes that act in the witness of a goal."""
    (result,) = vs.check(MODELS / file, [goal])
    assert isinstance(result.verdict, vs.Holds)
    assert result.verdict.trace is not None
    return {name for step in result.verdict.trace.steps for name in movers(step)}


def test_a_fake_producer_succeeds_between_producer_and_broker() -> None:
    found = who_acts(
        "kafka_intruder/kafka_intruder.csp", "System_FakingP() reaches Producer_Faking_Success"
    )
    assert found == {"Producer", "FakePro", "Broker"}


@pytest.mark.models
def test_data_leaks_although_the_producer_was_authenticated() -> None:
    found = who_acts("kafka_kerberos/kafka_kerberos.csp", "System_FakingP() reaches DataP_Leaking_Success")
    assert found >= {"Producer", "Broker", "AS", "TGS", "Intruder(0)"}
