"""A pyarrow Dataset of any format, partitioning and filter, as batches of columns."""

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
from pyarrow import dataset

from masgrad.data.tables.medium import Medium, check_columns, common_type, place_in
from masgrad.data.tables.parquet import BATCH_ROWS, SCAN_OPTIONS
from masgrad.errors import InputError


class Scan(Medium):
    """A dataset read in batches; row groups can be read in a random order if it is Parquet."""

    where = "the dataset"

    def __init__(self, data: dataset.Dataset, columns: Sequence[str], memory: int):
        self.data = data
        check_columns(self.where, columns, data.schema.names)
        self.fragments = _fragments(data)
        files = [isinstance(f, dataset.ParquetFileFragment) for f in self.fragments]
        self.parquet = bool(files) and all(files)
        self.types = {name: data.schema.field(name).type for name in columns}
        self._check_fragments()
        self.count = data.count_rows() if self.parquet else None
        if self.count == 0:
            raise InputError(f"{self.where} has no rows; at least one observation is needed")

    def _check_fragments(self) -> None:
        """Check that each column is in all files, or in none (a partition key), and of one kind."""
        files = [f for f in self.fragments if hasattr(f, "path")]
        for name in self.types:
            without = [f for f in files if name not in f.physical_schema.names]
            if 0 < len(without) < len(files):
                check_columns(without[0].path, [name], without[0].physical_schema.names)
            if not without:
                common_type(name, {f.path: f.physical_schema.field(name).type for f in files})

    def batches(
        self, rng: np.random.Generator | None, columns: Sequence[str]
    ) -> Iterator[pa.RecordBatch]:
        options: dict = {"columns": list(columns), "batch_size": BATCH_ROWS, "batch_readahead": 1}
        if self.parquet:
            options["fragment_scan_options"] = SCAN_OPTIONS
        try:
            for piece in [self.data] if rng is None else self._pieces(rng):
                last = {"fragment_readahead": 1} if piece is self.data else {}
                schema = {} if piece is self.data else {"schema": self.data.schema}
                yield from piece.scanner(**options, **last, **schema).to_batches()
        except FileNotFoundError:
            raise
        except (pa.ArrowException, OSError) as error:
            raise InputError(f"{self.where} cannot be read: {error}") from error

    def _pieces(self, rng: np.random.Generator) -> list:
        """Row groups in a random order; the dataset itself if it is filtered or not Parquet."""
        if not self.parquet:
            return [self.data]
        groups = [group for f in self.fragments for group in f.split_by_row_group()]
        return [groups[k] for k in rng.permutation(len(groups))]

    def place(self, row: int) -> str:
        if not self.parquet:
            return f"row {row} of {self.where}"
        counts = [f.count_rows() for f in self.fragments]
        return place_in([f.path for f in self.fragments], counts, row)


def _fragments(data: dataset.Dataset) -> list:
    """The fragments of a dataset, such as files; [] for a filtered one, which lists none."""
    try:
        return list(data.get_fragments())
    except ValueError:
        return []
