"""Configurations that were attacked: outcomes agree, differ with and without a reason, or surprise."""

from __future__ import annotations

from collections.abc import Sequence

from veristream.brokers.kerberos.secured import Security
from veristream.trials.intruders.attacks import Attack, Observation, Outcome
from veristream.trials.intruders.comparison import Attacked, compare
from veristream.trials.intruders.outcomes import Configuration, Counterpart, Expected
from veristream.trials.run import find_models

KNOWN = find_models()
FAKED = Counterpart("kafka_kerberos", "System_FakingP() reaches Producer_Faking_Success")
LEAKED = Counterpart("kafka_kerberos", "System_FakingP() reaches DataP_Leaking_Success")

STORED = Observation(Outcome.SUCCEEDED, "1 forged message stored", {"sent": 1, "stored": 1})
REFUSED = Observation(Outcome.PREVENTED, "0 forged messages stored: refused", {"sent": 1, "stored": 0})
READ = Observation(Outcome.SUCCEEDED, "10 of 10 payloads are readable in 2,500 bytes", {"read": 10})


def attack_once(expected: Sequence[Expected], *observed: Observation) -> Attacked:
    """One configuration on which the attacks led to these observations."""
    configuration = Configuration(
        "sasl-plaintext", "Clients need a ticket.", Security("SASL_PLAINTEXT"), tuple(expected)
    )
    found = {one.attack: seen for one, seen in zip(expected, observed, strict=True)}
    return compare(configuration, found, KNOWN)


REFUSES = Expected(Attack.PRODUCE_WITHOUT_TICKET, Outcome.PREVENTED, "refused", FAKED)
LEAKS = Expected(Attack.OVERHEAR_PRODUCER, Outcome.SUCCEEDED, "10 of 10", LEAKED)
NO_MODEL = Expected(
    Attack.PRODUCE_AS_ITSELF, Outcome.SUCCEEDED, "1 forged", None, "no model has registered intruders"
)
EXPLAINED = Expected(
    Attack.PRODUCE_AS_PRODUCER, Outcome.SUCCEEDED, "1 forged", FAKED, "the model's keys are secret"
)


def well() -> Attacked:
    """What was expected: two agreements, an explained difference, and something without a model."""
    return attack_once((REFUSES, EXPLAINED, NO_MODEL, LEAKS), REFUSED, STORED, STORED, READ)


def surprising() -> Attacked:
    """A forgery that was stored although the model excludes it and nobody expected it."""
    return attack_once((REFUSES,), STORED)
