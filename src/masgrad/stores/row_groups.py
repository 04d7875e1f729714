"""What will be read of a Parquet file, by its footer: column chunks, in batches of ranges.

Small row groups are joined to a batch; a large row group is several batches, each with a slice of
every chunk, since its columns are decoded side by side.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from masgrad.stores.files import Range

BATCH_BYTES = 8 << 20
"""Bytes of a batch, about: a tenth of a second, beside which an answer's delay is small."""

WHOLE_BYTES = 4 * BATCH_BYTES
"""Bytes of a row group up to which it is a batch: neighbouring columns are one range then."""


def batches_of(footer: Any, groups: Sequence[int], columns: Sequence[str]) -> list[list[Range]]:
    """Batches of ranges in the order of the rows.

    Args:
        footer: the metadata of the file, as pyarrow has them.
        groups: the row groups that are read.
        columns: the columns that are read.
    """
    leaves = [k for k in range(footer.num_columns) if footer.schema.column(k).path in columns]
    batches: list[list[Range]] = []
    held: list[Range] = []
    for group in groups:
        chunks = [_extent(footer.row_group(group).column(k)) for k in leaves]
        if held and _size(held) + _size(chunks) > BATCH_BYTES:
            batches.append(held)
            held = []
        if _size(chunks) > WHOLE_BYTES:
            batches += _slices(chunks)
        else:
            held += chunks
    return [*batches, held] if held else batches


def _slices(chunks: Sequence[Range]) -> Iterator[list[Range]]:
    """Batches of a large row group: the same part of each of its chunks."""
    count = -(-_size(chunks) // BATCH_BYTES)
    for k in range(count):
        parts = [
            (start + (stop - start) * k // count, start + (stop - start) * (k + 1) // count)
            for start, stop in chunks
        ]
        yield [(start, stop) for start, stop in parts if start < stop]


def _extent(chunk: Any) -> Range:
    start = chunk.data_page_offset
    if chunk.has_dictionary_page and chunk.dictionary_page_offset:
        start = min(start, chunk.dictionary_page_offset)
    return start, start + chunk.total_compressed_size


def _size(ranges: Sequence[Range]) -> int:
    return sum(stop - start for start, stop in ranges)
