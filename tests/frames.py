"""A stand-in for tables of pandas, where pandas is not installed."""

from __future__ import annotations

from typing import Any

import numpy as np


class FakeFrame:
    """Stands in for pandas.DataFrame: columns with dtypes, rows by iloc."""

    ndim = 2

    def __init__(self, columns: dict[Any, np.ndarray], dtypes: dict[Any, Any] | None = None) -> None:
        self.data, self.columns = columns, list(columns)
        self.dtypes = [(dtypes or {}).get(name, column.dtype) for name, column in columns.items()]
        self.shape = (len(next(iter(columns.values()))), len(columns))
        self.largest = 0  # rows that were converted at once

    def __getitem__(self, name: Any) -> np.ndarray:
        return self.data[name]

    def drop(self, columns: list[Any]) -> FakeFrame:
        kept = [name for name in self.columns if name not in columns]
        dtypes = dict(zip(self.columns, self.dtypes, strict=True))
        return FakeFrame({name: self.data[name] for name in kept}, {name: dtypes[name] for name in kept})

    @property
    def iloc(self) -> Any:
        outer = self

        class Locator:
            def __getitem__(self, rows: Any) -> FakeFrame:
                part = FakeFrame({name: column[rows] for name, column in outer.data.items()})
                outer.largest = max(outer.largest, len(part.data[outer.columns[0]]))
                return part

        return Locator()

    def __array__(self, dtype: object = None, copy: object = None) -> np.ndarray:
        return np.stack(list(self.data.values()), axis=1)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        raise AssertionError("pandas needs pyarrow for this, and no one else does")


FakeFrame.__module__ = "pandas.core.frame"
