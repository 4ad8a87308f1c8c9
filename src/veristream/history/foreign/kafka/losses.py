"""Why messages are lost: what an audit found, and the logs of brokers that are given beside the history."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from veristream.errors import ModelError
from veristream.history.foreign.kafka.dump import read_dumps
from veristream.history.foreign.kafka.view import LogView, attribute, view_logs
from veristream.history.foreign.kinds import RecordingKind, detect, files_in
from veristream.history.manifest import Manifest
from veristream.history.verdicts import Anomaly, Judgement

SOURCE: Final = "kafka"
"""Who wrote the histories whose streams are topics of Kafka."""


def read_logs(paths: Sequence[Path], manifest: Manifest) -> LogView:
    """Reads dumps of brokers' logs, in files or folders; one that is not of this history is an error."""
    if manifest.source != SOURCE:
        raise ModelError(
            f"this is a history of {manifest.source}, whose streams are no topics of Kafka",
            hint="name dumps of logs only with a recording of Kafka's clients",
        )
    files = [each for path in paths for each in _files(path)]
    dumps = read_dumps(files)
    topics = {stream.name for stream in manifest.streams}
    for file, dump in zip(files, dumps, strict=True):
        if not topics & {topic for topic, _ in dump.partitions}:
            known = ", ".join(f"`{name}`" for name in sorted(topics)) or "no topic"
            raise ModelError(
                f"`{file}` has no log of a topic of this history",
                hint=f"the history is of {known}: dump the segments of that",
            )
    return view_logs(dumps, manifest)


def attribute_all(judgements: Iterable[Judgement], view: LogView) -> dict[Anomaly, str]:
    """Returns in words why the message of each witness of a lost write is lost."""
    witnesses = (witness for judgement in judgements for witness in judgement.witnesses)
    return {each.anomaly: why for each in witnesses if (why := attribute(each, view))}


def _files(path: Path) -> list[Path]:
    kind = detect(path)
    if kind is not RecordingKind.KAFKA_LOG:
        raise ModelError(
            f"`{path}` is {kind}, not {RecordingKind.KAFKA_LOG}",
            hint="name what kafka-dump-log.sh --print-data-log printed",
        )
    return files_in(path) if path.is_dir() else [path]
