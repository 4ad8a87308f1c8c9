"""All trials, and how to find some."""

from __future__ import annotations

from collections.abc import Sequence

from veristream.errors import ModelError, suggest
from veristream.trials import kafka, nsq, rabbitmq
from veristream.trials.trial import Trial

TRIALS: tuple[Trial, ...] = (*kafka.TRIALS, *rabbitmq.TRIALS, *nsq.TRIALS)
BROKERS: tuple[str, ...] = tuple(dict.fromkeys(one.broker for one in TRIALS))


def find_trials(brokers: Sequence[str] = (), names: Sequence[str] = ()) -> tuple[Trial, ...]:
    """Returns the trials of the named brokers, or all; with names, only those. Raises ModelError."""
    for broker in brokers:
        if broker not in BROKERS:
            raise ModelError(
                f"there are no trials of `{broker}`",
                hint=suggest(broker, BROKERS, f"choose from {', '.join(BROKERS)}"),
            )
    among = [one for one in TRIALS if not brokers or one.broker in brokers]
    known = [one.name for one in among]
    for name in names:
        if name not in known:
            whose = " and ".join(brokers) or "a broker"
            raise ModelError(
                f"no trial of {whose} is called `{name}`",
                hint=suggest(name, known, f"choose from {', '.join(known)}"),
            )
    return tuple(one for one in among if not names or one.name in names)
