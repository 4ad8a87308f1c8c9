"""What a test expects the plain checker to say of one property."""

from veristream.history.oracle.judge import judge
from veristream.history.properties import Property
from veristream.history.verdicts import Anomaly, Judgement, Word
from veristream_testing.histories.history import History


def judge_one(asked: Property, of: History) -> Judgement:
    """Judges one property."""
    (judgement,) = judge(of.manifest, of.events, [asked])
    assert judgement.property == asked.value
    return judgement


def anomalies_of(judgement: Judgement) -> list[Anomaly]:
    """Returns the anomalies with witnesses, which are all if there are at most three of each kind."""
    return [witness.anomaly for witness in judgement.witnesses]


def shown(judgement: Judgement) -> list[str]:
    """Returns the events of the first witness, each as the letter of its process with its index."""
    return [f"{'abcdefgh'[event.process]}{event.index}" for event in judgement.witnesses[0].events]


def assert_held(asked: Property, of: History, reason: str) -> None:
    """Asserts that a property held, over what the reason counts."""
    judgement = judge_one(asked, of)
    assert (judgement.word, judgement.reason) == (Word.HELD, reason)
    assert judgement.counts == {}
    assert judgement.witnesses == ()


def assert_violated(asked: Property, of: History, reason: str, *anomalies: Anomaly) -> Judgement:
    """Asserts that a property was violated by these anomalies and no others."""
    judgement = judge_one(asked, of)
    assert (judgement.word, judgement.reason) == (Word.VIOLATED, reason)
    assert anomalies_of(judgement) == list(anomalies)
    assert sum(judgement.counts.values()) == len(anomalies)
    return judgement


def assert_not_observable(asked: Property, of: History, reason: str) -> None:
    """Asserts that a property could not be decided, and why."""
    judgement = judge_one(asked, of)
    assert judgement.word is Word.NOT_OBSERVABLE
    assert reason in judgement.reason
    assert judgement.counts == {}
    assert judgement.witnesses == ()
