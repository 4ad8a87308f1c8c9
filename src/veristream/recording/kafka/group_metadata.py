"""Who a member of a group is, as a consumer tells it and a transactional producer passes it on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class GroupMetadata:
    """Kafka's own object, and the number of the group in the recording."""

    inner: Any
    group: int
