"""Finds the offsets of events by reading the partition, if Kafka's delivery reports do not tell them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from veristream.kabis.client.errors import DeliveryTimeoutError
from veristream.kabis.client.kafka.parcels import PlainParcel, are_consecutive, content_of, find_offsets
from veristream.kabis.kafka.reading import PartitionReader
from veristream.kabis.kafka.settings import KafkaSettings

READ_PATIENCE_S = 30.0


class Locator:
    """Finds the offsets of a parcel's events on the first call.

    Calls `tell_shared` if other producers' events lie between them.
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
        """Returns the offsets. Raises EnvironmentFailure if one is missing or Kafka does not answer."""
        with self._lock:
            if self._found is None:
                self._found = found = self._read()
                if not are_consecutive(found[0], found[-1], len(found)):
                    self._tell_shared()  # so that later events need no reading
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
            raise DeliveryTimeoutError(f"{parcel.topic}-{parcel.partition}", "some are missing")
        return offsets
