"""All trials and all configurations that intruders attack, and how to find some."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from veristream.errors import ModelError, suggest
from veristream.trials import kafka, nsq, rabbitmq
from veristream.trials.intruders.outcomes import BROKER as KERBEROS
from veristream.trials.intruders.outcomes import Configuration, read_shipped
from veristream.trials.trial import Trial

TRIALS: tuple[Trial, ...] = (*kafka.TRIALS, *rabbitmq.TRIALS, *nsq.TRIALS)
BROKERS: tuple[str, ...] = tuple(dict.fromkeys(one.broker for one in TRIALS))


@dataclass(frozen=True, slots=True)
class Chosen:
    """What is to be run: trials, and configurations that intruders attack."""

    trials: tuple[Trial, ...]
    configurations: tuple[Configuration, ...]


def choose(brokers: Sequence[str] = (), names: Sequence[str] = ()) -> Chosen:
    """Returns what the named brokers have, or all; with names, only those. Raises ModelError."""
    choices = (*BROKERS, KERBEROS)
    for broker in brokers:
        if broker not in choices:
            raise ModelError(
                f"there are no trials of `{broker}`",
                hint=suggest(broker, choices, f"choose from {', '.join(choices)}"),
            )
    trials = [one for one in TRIALS if not brokers or one.broker in brokers]
    configurations = read_shipped() if not brokers or KERBEROS in brokers else ()
    known = [*(one.name for one in trials), *(one.name for one in configurations)]
    for name in names:
        if name not in known:
            whose = " and ".join(brokers) or "a broker"
            raise ModelError(
                f"no trial of {whose} is called `{name}`",
                hint=suggest(name, known, f"choose from {', '.join(known)}"),
            )
    return Chosen(
        tuple(one for one in trials if not names or one.name in names),
        tuple(one for one in configurations if not names or one.name in names),
    )


def find_trials(brokers: Sequence[str] = (), names: Sequence[str] = ()) -> tuple[Trial, ...]:
    """Returns the trials of the named brokers, or all; with names, only those. Raises ModelError."""
    return choose(brokers, names).trials
