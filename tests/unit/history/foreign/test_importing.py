"""Which kind a recording is, and which ones belong together."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.history.foreign.test_jepsen_log import ASSIGNED
from tests.unit.history.foreign.test_kafka_clients import CONSUMER, PRODUCER, lines
from tests.unit.history.foreign.test_kafka_dump import LOG
from veristream.errors import ModelError
from veristream.history.foreign.importing import import_history
from veristream.history.foreign.kinds import RecordingKind, detect

JSON_OP = '{"process":0,"type":"invoke","f":"send","value":[["send",1,1]]}'


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (ASSIGNED, RecordingKind.JEPSEN_EDN),
        (f"; a comment\n[{ASSIGNED}]", RecordingKind.JEPSEN_EDN),
        ("#jepsen.history.Op{:process 0}", RecordingKind.JEPSEN_EDN),
        ("({:process 0})", RecordingKind.JEPSEN_EDN),
        (JSON_OP, RecordingKind.JEPSEN_JSON),
        (f" [ {JSON_OP} ]", RecordingKind.JEPSEN_JSON),
        (JSON_OP[:20], RecordingKind.JEPSEN_JSON),
        (lines(*PRODUCER), RecordingKind.KAFKA_CLIENT),
        ("[2024-01-01 10:00:00,123] INFO x\n" + lines(*CONSUMER), RecordingKind.KAFKA_CLIENT),
        (LOG, RecordingKind.KAFKA_LOG),
        ("[0.003s][warning][gc,ergo] NewSize\n" + LOG, RecordingKind.KAFKA_LOG),
    ],
)
def test_the_kind_of_a_file(tmp_path: Path, text: str, kind: RecordingKind) -> None:
    path = tmp_path / "recording"
    path.write_text(text, encoding="utf-8")
    assert detect(path) is kind
    path.write_text("\ufeff" + text, encoding="utf-8")
    assert detect(path) is kind


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "`PATH` is empty"),
        (b" \n; nothing\n", "`PATH` contains nothing but space and comments"),
        (b"\x00\x01\x02", "`PATH` is not a text: it contains null bytes"),
        (b"PAR1\xff\xfe", "`PATH` is not a text in UTF-8: invalid start byte"),
        (b"hello", "`PATH` is no recording that Veristream knows"),
        (b'{"a": 1}', "`PATH` is JSON, but neither a Jepsen history nor the output of a verifiable client"),
    ],
)
def test_what_is_no_recording(tmp_path: Path, data: bytes, message: str) -> None:
    path = tmp_path / "recording"
    path.write_bytes(data)
    with pytest.raises(ModelError) as caught:
        import_history([path], tmp_path / "history")
    assert caught.value.message == message.replace("PATH", str(path))
    assert caught.value.hint
    assert not (tmp_path / "history").exists()


def write(folder: Path, **texts: str) -> list[Path]:
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
    return [folder / name for name in texts]


def test_recordings_that_do_not_belong_together(tmp_path: Path) -> None:
    edn, client, log = write(tmp_path, edn=ASSIGNED, client=lines(*PRODUCER), log=LOG)
    (other,) = write(tmp_path, other=ASSIGNED)
    history = tmp_path / "history"
    for paths, message in (
        ([edn, client], "recordings of one history are of one kind: "),
        ([edn, other], f"`{edn}` and `{other}` are two histories"),
        ([edn, log], f"`{log}` cannot be joined with a Jepsen history in EDN"),
        ([log], f"`{log}` is a dump of a Kafka broker's log, and no client's recording is named"),
        ([tmp_path / "nothing"], f"`{tmp_path / 'nothing'}` does not exist"),
        ([client, client], f"`{client}` is named twice"),
        (
            [tmp_path],
            f"`{tmp_path}` contains a Jepsen history in EDN and a dump of a Kafka broker's log and ",
        ),
    ):
        with pytest.raises(ModelError) as caught:
            import_history(paths, history)
        assert caught.value.message.startswith(message)
        assert not (history / "history.json").exists()
    import_history([edn], history / "good")
    with pytest.raises(ModelError, match="is a history of Veristream already"):
        import_history([history / "good"], history / "again")
    with pytest.raises(ModelError, match="already contains a history"):
        import_history([edn], history / "good")
