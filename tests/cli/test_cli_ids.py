"""Ids of the rows on the command line: a column of a table, a file, or the default ones."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import interlace as il
from cli_checks import fails
from conftest import Run
from helpers import clustered

pa = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")

N = 60
X = clustered(N, 6, seed=3)
NUMBERS = (np.arange(N) * 5 + 2).tolist()
WORDS = [f"é{i}" for i in range(N)]
OTHERS = [f"other {i}" for i in range(N)]
BUILD = ("--n-bytes", 2, "--n-words", 8, "--threads", 1)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("made")
    il.Index.build(X, n_bytes=2, n_words=8, threads=1).codebooks.save(path / "x.books")
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(X.ravel()), 6)
    parquet.write_table(pa.table({"id": WORDS, "name": OTHERS, "v": vectors}), path / "words.parquet")
    numbers = {"id": NUMBERS, **{f"f{i}": X[:, i] for i in range(6)}}
    parquet.write_table(pa.table(numbers), path / "numbers.parquet", row_group_size=11)
    parquet.write_table(pa.table({"title": OTHERS, "v": vectors}), path / "none.parquet")
    parquet.write_table(pa.table({"id": np.linspace(0, 1, N), "v": vectors}), path / "floats.parquet")
    (path / "ids.txt").write_text("".join(f"file {i}\n" for i in range(N)))
    (path / "x.csv").write_text(
        "f0,f1,f2,f3,f4,f5,id\n" + "".join(",".join(map(str, row)) + f",{w}\n" for row, w in zip(X, WORDS, strict=True))
    )
    np.save(path / "x.npy", X)
    return path


@pytest.fixture
def folder(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "files"))


CASES: dict[str, tuple[tuple[str, ...], list[Any], str | None]] = {
    "strings": (("words.parquet",), WORDS, "id"),
    "integers": (("numbers.parquet",), NUMBERS, "id"),
    "a column": (("words.parquet", "--ids", "name"), OTHERS, "name"),
    "with key": (("words.parquet", "--key", "v", "--ids", "id"), WORDS, "id"),
    "a file in place of the column": (("words.parquet", "--ids", "ids.txt"), [f"file {i}" for i in range(N)], None),
    "no column id": (("none.parquet",), list(range(N)), None),
    "no table": (("x.npy",), list(range(N)), None),
}


@pytest.mark.parametrize("name", CASES)
def test_ids_of_an_index_and_of_a_store(run: Run, name: str) -> None:
    args, ids, column = CASES[name]
    code, out, _ = run("build", *args, "-o", "x.index", *BUILD)
    assert code == 0
    assert il.open("x.index").ids.tolist() == ids
    assert (f"ids are those of column {column!r}" in out) == (column is not None)
    assert run("create", "s", "--from", "x.books")[0] == 0
    code, out, _ = run("add", "s", *args)
    assert code == 0
    assert il.open("s").ids.tolist() == ids
    assert (f"ids are those of column {column!r}" in out) == (column is not None)
    if column is not None:
        fails(run("add", "s", *args), f"{ids[0]!r} is already in the store")
        code, out, _ = run("add", "s", *args, "--upsert", "--json")
        assert json.loads(out)["rows"] == N


def test_lines_with_ids_are_as_before(run: Run) -> None:
    assert run("create", "s", "--from", "x.books")[0] == 0
    assert run("add", "s", "x.csv")[0] == 0
    assert il.open("s").ids.tolist() == WORDS
    fails(run("add", "s", "x.csv", "--ids", "ids.txt"), "contain ids: do not pass --ids")


def test_what_cannot_be_ids_says_so(run: Run) -> None:
    assert run("create", "s", "--from", "x.books")[0] == 0
    for command in (("build", "{}", "-o", "bad.index", *BUILD), ("add", "s", "{}")):
        floats, words, npy = (
            [str(a).format(name) for a in command] for name in ("floats.parquet", "words.parquet", "x.npy")
        )
        fails(run(*floats), "'floats.parquet': column 'id' is of type double, but ids are integers or strings")
        fails(run(*words, "--ids", "nam"), "--ids 'nam' is no column of 'words.parquet', which has 'id', 'name', 'v'")
        assert run(*npy, "--ids", "nam")[0] == 1
    assert len(il.open("s")) == 0
    assert not Path("bad.index").exists()


def test_queries_may_have_ids_too(run: Run) -> None:
    assert run("build", "x.npy", "-o", "x.index", *BUILD)[0] == 0
    found = [json.loads(run("search", "x.index", q, "--json")[1])["hits"] for q in ("numbers.parquet", "x.npy")]
    assert found[0] == found[1]
