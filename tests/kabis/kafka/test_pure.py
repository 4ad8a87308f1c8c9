"""What needs no Kafka: frames, settings, and where a parcel's events stand."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from veristream.errors import EnvironmentFailure, ModelError
from veristream.kabis.client.kafka.parcels import are_consecutive, content_of, find_offsets
from veristream.kabis.kafka.settings import KafkaSettings, load_settings, read_settings
from veristream.kabis.log.kafka.frames import FRAME_BYTES, FrameError, decode_frame, encode_frame

POSITIONS = st.integers(0, 1 << 62)


@given(POSITIONS, st.binary(max_size=100))
def test_a_record_comes_back(position: int, payload: bytes) -> None:
    message = encode_frame(position, payload)
    assert len(message) == FRAME_BYTES + len(payload)
    assert decode_frame(position, message) == payload


@given(POSITIONS, st.binary(max_size=100), st.data())
def test_whichever_bit_changes_it_is_noticed(position: int, payload: bytes, data: st.DataObject) -> None:
    message = bytearray(encode_frame(position, payload))
    bit = data.draw(st.integers(0, 8 * len(message) - 1))
    message[bit // 8] ^= 1 << bit % 8
    with pytest.raises(FrameError):
        decode_frame(position, bytes(message))


@given(POSITIONS, POSITIONS, st.binary(max_size=20))
def test_a_record_in_another_place_is_noticed(position: int, other: int, payload: bytes) -> None:
    if position != other:
        with pytest.raises(FrameError, match="stands in the wrong place"):
            decode_frame(other, encode_frame(position, payload))


@pytest.mark.parametrize("message", [None, b"", b"forged", bytes(FRAME_BYTES)])
def test_what_nobody_of_us_wrote_is_no_record(message: bytes | None) -> None:
    with pytest.raises(FrameError):
        decode_frame(0, message)


def test_settings_are_read_and_written(tmp_path: Path) -> None:
    assert read_settings("a:1") == KafkaSettings("a:1")
    path = tmp_path / "kafka"
    path.write_text(
        "# comment\n\nbootstrap.servers = a:1,b:2\nsasl.password=with = in it\n", encoding="utf-8"
    )
    found = load_settings(path)
    assert found == KafkaSettings("a:1,b:2", {"sasl.password": "with = in it"})
    assert read_settings(str(path)) == found
    path.write_text(found.encode(), encoding="utf-8")
    assert load_settings(path) == found
    assert load_settings(path, "c:3").bootstrap == "c:3"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("bootstrap.servers=a", "not the address"),
        ("sasl.username=x", "does not set bootstrap.servers"),
        ("bootstrap.servers=a:1\nacks=1", "sets acks"),
        ("bootstrap.servers=a:1\nnonsense", "is not a property"),
    ],
)
def test_wrong_settings_are_the_users_error(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "kafka"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ModelError, match=said):
        load_settings(path)


def test_a_file_that_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentFailure, match=str(tmp_path / "none")):
        read_settings(str(tmp_path / "none"))


def test_as_many_offsets_as_events_are_theirs() -> None:
    assert are_consecutive(5, 5, 1)
    assert are_consecutive(5, 7, 3)
    assert not are_consecutive(5, 8, 3)
    assert not are_consecutive(5, 6, 3)


@given(st.lists(st.tuples(st.booleans(), st.sampled_from([b"a", b"b", None])), max_size=30))
def test_events_are_found_between_others(written: list[tuple[bool, bytes | None]]) -> None:
    """Each offset found has what was sent; they ascend, and none is missing."""
    kept = [(10 + place, content_of(None, value)) for place, (_, value) in enumerate(written)]
    ours = [content_of(None, value) for is_ours, value in written if is_ours]
    found = find_offsets(ours, kept)
    assert found is not None
    assert found == sorted(set(found))
    assert [dict(kept)[offset] for offset in found] == ours


def test_an_event_that_is_missing_is_noticed() -> None:
    kept = [(0, content_of(None, b"a")), (1, content_of(None, b"c")), (2, content_of(b"k", b"d"))]
    assert find_offsets([b"a", b"c", (b"k", b"d")], kept) == [0, 1, 2]
    assert find_offsets([b"a", b"b", b"c"], kept) is None
    assert find_offsets([(b"k", b"a")], kept) is None
    assert find_offsets([b"d"], kept) is None
    assert find_offsets([b"c", b"a"], kept) is None
