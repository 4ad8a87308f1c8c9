"""NSQ's stage without NSQ: settings, names, and what lookups say of a removal."""

from __future__ import annotations

import pytest

from veristream.errors import ModelError
from veristream.history.verdicts import Word
from veristream.replay.nsq.clients import Looked, channel_of
from veristream.replay.nsq.settings import Settings, read_settings
from veristream.replay.nsq.stage import STAYS_OUT, judge_lookups, tell_lookup
from veristream.replay.outcome import Evidence, Observed

BEFORE = Looked("Consumer(0)", ("127.0.0.1:4150",), None)
HIDDEN = Looked("Consumer(0)", (), 0.5)
BACK = Looked("Consumer(0)", ("127.0.0.1:4150",), 3.04)


def test_settings_belong_to_programs_or_clients() -> None:
    given = {
        "nsqd.msg-timeout": "1s",
        "nsqlookupd.tombstone-lifetime": "3s",
        "client.channels-first": "true",
    }
    assert read_settings(given) == Settings({"msg-timeout": "1s"}, {"tombstone-lifetime": "3s"}, True)
    assert read_settings({"client.channels-first": "false"}) == read_settings({}) == Settings()


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("nsq.x", "1", "`nsq.x` belongs to nothing of NSQ"),
        ("nsqd", "1", "`nsqd` belongs to nothing of NSQ"),
        ("nsqd.", "1", "`nsqd.` belongs to nothing of NSQ"),
        ("client.channel-first", "true", "clients have no setting `channel-first`"),
        ("client.channels-first", "yes", "`client.channels-first=yes` is not valid"),
    ],
)
def test_other_settings_are_errors(name: str, value: str, message: str) -> None:
    with pytest.raises(ModelError) as caught:
        read_settings({name: value})
    assert caught.value.message == message


def test_a_process_has_a_channel() -> None:
    assert channel_of("Channel(1)") == "channel-1"


def test_whoever_is_found_after_the_removal_came_back() -> None:
    assert judge_lookups([BEFORE, HIDDEN, BACK]) == Observed(
        STAYS_OUT, Word.VIOLATED, "nsqlookupd named 127.0.0.1:4150 3.0 s after its removal"
    )
    assert judge_lookups([BEFORE, HIDDEN]) == Observed(STAYS_OUT, Word.HELD, "1 lookup named nobody")
    assert judge_lookups([HIDDEN, HIDDEN]).reason == "2 lookups named nobody"
    assert judge_lookups([BEFORE]).word is Word.NOT_OBSERVABLE
    assert list(map(tell_lookup, (BEFORE, HIDDEN, BACK))) == [
        Evidence("/lookup, asked by Consumer(0), named 127.0.0.1:4150"),
        Evidence("/lookup, asked by Consumer(0) 0.5 s after the removal, named nobody"),
        Evidence("/lookup, asked by Consumer(0) 3.0 s after the removal, named 127.0.0.1:4150", shows=True),
    ]
