"""Where the bytes are: every number of the report is the size of something real."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import interlace as il
from helpers import build, clustered, hand_made, small_index
from interlace.files import storage


def test_parts_add_up() -> None:
    index = small_index(n=100)
    report = index.report()
    assert (report.rows, report.n_bytes) == (100, 3)
    assert report.codes == 128 * 1 + 100 * 1  # crude columns in blocks of 64 rows, the rest row by row
    assert report.learned == sum(a.nbytes for a in index.codebooks.to_arrays()[0].values())
    assert report.total == report.codes + report.row_numbers + report.ids + report.learned + report.tables
    assert report.code_bytes_per_vector == (report.codes + report.row_numbers) / 100
    assert report.tables > 0
    assert report.file is None


@pytest.mark.parametrize("ids", ["default", "int64", "string"])
def test_an_opened_index_reports_the_sections_of_its_file(ids: str, tmp_path: Path) -> None:
    build(ids=ids).save(tmp_path / "i")
    report, file = il.open(tmp_path / "i").report(), storage.read(tmp_path / "i")

    def stored(*prefixes: str) -> int:
        return sum(file.entry(name)[2] for name in file.names if name.startswith(prefixes))

    assert report.codes == stored("segment.crude", "segment.rest")
    assert report.row_numbers == stored("segment.") - report.codes
    assert report.ids == stored("ids.")
    assert (report.ids == 0) == (ids == "default")
    assert report.learned == stored("codebooks.")
    assert report.file == (tmp_path / "i").stat().st_size


def test_segments_of_a_growing_index_are_all_counted() -> None:
    index = small_index(n=200)
    index.add(clustered(30, 4))
    assert len(index.engine.segments) == 2
    assert index.report().rows == 230
    assert index.report().codes == (256 + 200) + (64 + 30)


def test_eight_bytes_cost_little_more_than_eight() -> None:
    """With many rows per cell, row numbers take about ten bits, less the byte of the implied cell."""
    rng = np.random.default_rng(0)
    words = rng.normal(size=(256, 1))
    books = il.Codebooks([il.Book(words, [d]) for d in range(8)], dim=8, n_crude=3)
    index = il.Index(books)
    index.add(rng.normal(size=(40_000, 8)), threads=1)
    assert 7 < index.report().code_bytes_per_vector < 8.4


def test_an_empty_index_has_a_report() -> None:
    report = il.Index(hand_made()).report()
    assert (report.rows, report.codes, report.ids, report.code_bytes_per_vector) == (0, 0, 0, 0.0)


def test_the_text_shows_every_part(tmp_path: Path) -> None:
    small_index(n=5000).save(tmp_path / "i")
    report = il.open(tmp_path / "i").report()
    text = str(report)
    assert text.startswith(f"5000 rows, {report.code_bytes_per_vector:.2f} code bytes per vector (n_bytes=3)")
    for size in (
        report.codes,
        report.row_numbers,
        report.ids,
        report.learned,
        report.tables,
        report.total - report.tables,
        report.file,
    ):
        assert f"{size:,} bytes" in text
