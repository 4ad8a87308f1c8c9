"""Where events stand in a partition when Kafka's word does not say it: they are looked for there."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from veristream.kabis.client.errors import DeliveryTimeoutError
from veristream.kabis.client.kafka.parcels import PlainParcel, are_consecutive, content_of, find_offsets
from veristream.kabis.kafka.reading import PartitionReader
from veristream.kabis.kafka.settings import KafkaSettings

READ_PATIENCE_S = 30.0


class Locator:
    """Where the events of a parcel stand, read when it is called first.

    `tell_shared` is called if others' events lie between them.
    """

    def __init__(
        self, settings: KafkaSettings, parcel: PlainParcel, tell_shared: Callable[[], object]
    ) -> None:
        self._settings = settings
        self._parcel = parcel
        self._tell_shared = tell_shared
        self._found: list[int] | None = None
        self._lock = threading.Lock()

    def __call__(self) -> Sequence[int]:
        """The offsets; raises EnvironmentFailure if they cannot be read, or an event is missing."""
        with self._lock:
            if self._found is None:
                self._found = found = self._read()
                if not are_consecutive(found[0], found[-1], len(found)):
                    self._tell_shared()  # so that nobody has to read what comes from now on
                self._parcel.forget()
            return self._found

    def _read(self) -> list[int]:
        parcel = self._parcel
        first, last = parcel.indices[0], parcel.indices[-1]
        reader = PartitionReader(self._settings, parcel.topic, parcel.partition)
        try:
            start = parcel.after if first is None else first
            end = reader.bounds()[1] if last is None else last + 1
            kept = [
                (message.offset() or 0, content_of(message.key(), message.value()))
                for message in reader.messages(start, end, READ_PATIENCE_S)
            ]
        finally:
            reader.close()
        offsets = find_offsets(parcel.contents, kept)
        if offsets is None:
            raise DeliveryTimeoutError(f"{parcel.topic}-{parcel.partition}", "not all were kept")
        return offsets
