"""Maps flat dataclasses to Arrow record batches and Spark schemas, by their fields."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import Field, dataclass, fields
from typing import Any, ClassVar, Protocol, TypeVar

import pyarrow as pa

ROWS_PER_RECORD_BATCH = 1000


class IsDataclass(Protocol):
    """Any dataclass."""

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]


Row = TypeVar("Row", bound=IsDataclass)


@dataclass(frozen=True, slots=True)
class _Column:
    ddl: str
    arrow: Any


_COLUMNS: Mapping[str, _Column] = {
    "int": _Column("bigint", pa.int64()),
    "str": _Column("string", pa.string()),
    "bytes": _Column("binary", pa.binary()),
    "bool": _Column("boolean", pa.bool_()),
    "tuple[str, ...]": _Column("array<string>", pa.list_(pa.string())),
}


def names(row: type[IsDataclass]) -> list[str]:
    """Returns the names of the columns in order."""
    return [field.name for field in fields(row)]


def to_ddl(row: type[IsDataclass]) -> str:
    """Returns the columns as a Spark schema."""
    return ", ".join(f"`{field.name}` {_COLUMNS[str(field.type)].ddl}" for field in fields(row))


def to_arrow(row: type[Row], rows: Iterable[Row]) -> Iterator[Any]:
    """Converts rows to record batches of bounded size."""
    schema = pa.schema([(field.name, _COLUMNS[str(field.type)].arrow) for field in fields(row)])
    taken: list[Row] = []
    for each in rows:
        taken.append(each)
        if len(taken) == ROWS_PER_RECORD_BATCH:
            yield _record_batch(schema, taken)
            taken = []
    if taken:
        yield _record_batch(schema, taken)


def to_table(row: type[Row], rows: Iterable[Row]) -> Any:
    """Converts rows to one Arrow table."""
    schema = pa.schema([(field.name, _COLUMNS[str(field.type)].arrow) for field in fields(row)])
    return pa.Table.from_batches(list(to_arrow(row, rows)), schema)


def from_arrow(row: type[Row], data: Any) -> Iterator[Row]:
    """Reads the rows of a record batch or table, using the columns of the dataclass."""
    columns = []
    for field in fields(row):
        values = data.column(field.name).to_pylist()
        columns.append(map(tuple, values) if str(field.type).startswith("tuple") else values)
    return (row(*values) for values in zip(*columns, strict=True))


def _record_batch(schema: Any, rows: list[Any]) -> Any:
    columns = [pa.array([getattr(each, field.name) for each in rows], field.type) for field in schema]
    return pa.record_batch(columns, schema=schema)
