"""Commands of stores with columns and kept originals: what they take, filter by, give back and learn from."""

from __future__ import annotations

import io
import json
import re
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import interlace as il
from cli_checks import fails
from conftest import Run
from helpers import clustered
from interlace.cli import blocks

pa = pytest.importorskip("pyarrow")
import pyarrow.feather as feather  # noqa: E402
import pyarrow.parquet as parquet  # noqa: E402

X = clustered(700, 6, seed=3)
Q = clustered(5, 6, seed=4)
N = 60
PRICES = [None if i % 7 == 0 else i / 4 for i in range(N)]
TAGS = [["a", 'b, "c"', "NA", "", None][i % 5] for i in range(N)]
DAYS = [f"2024-01-{1 + i % 28:02}" for i in range(N)]
COLUMNS = ("--column", "price:float32", "--column", "tag:string", "--column", "day:date32")
ROWS = [{"price": p, "tag": t, "day": d} for p, t, d in zip(PRICES, TAGS, DAYS, strict=True)]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Books, an index, rows, their columns in files of every kind, queries."""
    path = tmp_path_factory.mktemp("made")
    index = il.Index.build(X[:500], n_bytes=4, layout="subspace", threads=1)
    index.codebooks.save(path / "x.books")
    few = il.Index(index.codebooks)
    few.add(X[:N], threads=1)
    few.save(path / "x.index")
    np.save(path / "rows.npy", X[:N])
    np.save(path / "q.npy", Q)
    table = pa.table({"price": pa.array(PRICES), "other": np.arange(N), "tag": TAGS, "day": pa.array(DAYS)})
    dated = table.set_column(3, "day", table["day"].cast(pa.date32()))
    parquet.write_table(dated, path / "p.parquet")
    feather.write_feather(dated, path / "p.feather")
    lines = [json.dumps({"other": i, **row}) for i, row in enumerate(ROWS)]
    (path / "p.jsonl").write_text("\n".join(lines) + "\n")
    for name, separator in (("p.csv", ","), ("p.tsv", "\t")):
        (path / name).write_text(as_csv(separator))
    return path


def as_csv(separator: str) -> str:
    """Text is quoted, nothing is not."""
    lines = [separator.join(("tag", "other", "price", "day"))]
    for i, row in enumerate(ROWS):
        tag = "" if row["tag"] is None else '"' + row["tag"].replace('"', '""') + '"'
        lines.append(separator.join((tag, str(i), "" if row["price"] is None else str(row["price"]), row["day"])))
    return "\n".join(lines) + "\n"


@pytest.fixture
def folder(made: Path, tmp_path: Path) -> Path:
    """The same files, for one test."""
    return Path(shutil.copytree(made, tmp_path / "files"))


@pytest.fixture
def store(folder: Path, run: Run) -> Path:
    """With columns and originals, filled."""
    assert run("create", "s", "--from", "x.books", *COLUMNS, "--originals", "float16")[0] == 0
    assert run("add", "s", "rows.npy", "--payload", "p.parquet")[0] == 0
    return folder / "s"


def piped(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))


def told(store: Any) -> list[dict[str, Any]]:
    """All columns, dates as text."""
    return [{**row, "day": str(row["day"])} for row in store.payload().to_pylist()]


class TestCreate:
    def test_what_rows_have(self, run: Run) -> None:
        code, out, _ = run("create", "s", "--from", "x.books", *COLUMNS, "--originals", "int8")
        assert code == 0
        assert "columns: price (float), tag (string), day (date32[day])\noriginals: int8\n" in out
        found = json.loads(run("info", "s", "--json")[1])
        assert found["columns"] == {"price": "float", "tag": "string", "day": "date32[day]"}
        assert found["originals"] == "int8"
        lines = [" ".join(line.split()) for line in run("info", "s")[1].splitlines()]
        assert {"columns price (float), tag (string), day (date32[day])", "originals int8"} <= set(lines)

    def test_rows_of_an_index(self, run: Run) -> None:
        assert run("create", "s", "--from", "x.index", *COLUMNS, "--payload", "p.csv")[0] == 0
        assert told(il.open("s")) == ROWS
        fails(run("create", "t", "--from", "x.index", "--originals", "int8"), "use --empty")
        assert run("create", "t", "--from", "x.index", "--originals", "int8", "--empty")[0] == 0
        assert len(il.open("t")) == 0

    def test_refused(self, run: Run) -> None:
        for column, message in (("price", "NAME:TYPE"), (":int8", "NAME:TYPE"), ("a:", "NAME:TYPE")):
            code, _, err = run("create", "s", "--from", "x.books", "--column", column)
            assert code == 2
            assert message in err
        fails(run("create", "s", "--from", "x.books", "--column", "a:number"), "'number' is not an Arrow type")
        twice = ("--column", "a:int8", "--column", "a:int8")
        fails(run("create", "s", "--from", "x.books", *twice), "--column a is given 2 times")
        fails(run("create", "s", "--from", "x.index", "--payload", "p.csv"), "--payload needs --column")
        fails(
            run("create", "s", "--from", "x.index", "--column", "colour:string", "--payload", "p.csv"),
            "'p.csv' has no column that the store has: its columns are 'tag', 'other', 'price', 'day', those of the "
            "store 'colour'",
        )
        assert not Path("s").exists()


class TestAdd:
    @pytest.mark.parametrize("name", ["p.parquet", "p.feather", "p.csv", "p.tsv", "p.jsonl"])
    @pytest.mark.parametrize("rows", [7, 10_000])
    def test_a_file_of_columns(self, run: Run, monkeypatch: pytest.MonkeyPatch, name: str, rows: int) -> None:
        """Every kind gives the same values, in blocks of any size; what the store does not have is passed over."""
        monkeypatch.setattr(blocks, "ROWS", rows)
        assert run("create", "s", "--from", "x.books", *COLUMNS)[0] == 0
        code, _, err = run("add", "s", "rows.npy", "--payload", name)
        assert (code, err) == (0, "")
        assert told(il.open("s")) == ROWS

    @pytest.mark.parametrize("flat", [False, True])
    def test_lines_with_a_payload(self, run: Run, monkeypatch: pytest.MonkeyPatch, flat: bool) -> None:
        """Beside id and vector, or in an object; other names are passed over."""
        monkeypatch.setattr(blocks, "ROWS", 7)
        assert run("create", "s", "--from", "x.books", *COLUMNS)[0] == 0
        lines = [
            {"id": i, "vector": x.tolist(), "other": i, **(row if flat else {"payload": row})}
            for i, (x, row) in enumerate(zip(X, ROWS, strict=False))
        ]
        piped(monkeypatch, "".join(json.dumps(line) + "\n" for line in lines))
        assert run("add", "s", "-")[0] == 0
        assert told(il.open("s")) == ROWS

    @pytest.mark.parametrize(
        ("payload", "message"),
        [
            ('{"prise": 1}', "payload has a column 'prise'"),
            ('{"price": "1"}', "payload column 'price' must be float"),
            ('{"day": "soon"}', "payload column 'day' must be date32[day]"),
            ("7", "line 2: its payload is 7: an object is needed"),
        ],
    )
    def test_a_payload_that_does_not_fit(
        self, run: Run, store: Path, monkeypatch: pytest.MonkeyPatch, payload: str, message: str
    ) -> None:
        monkeypatch.setattr(blocks, "ROWS", 1)
        row = '{"vector": [1, 2, 3, 4, 5, 6]'
        piped(monkeypatch, f'{row}}}\n{row}, "payload": {payload}}}\n')
        result = run("add", "s", "-")
        fails(result, message)
        assert result[2].endswith("; 1 earlier row was added\n")
        assert len(il.open("s")) == N + 1

    def test_files_that_do_not_fit(self, run: Run, store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        fails(run("add", "s", "q.npy", "--payload", "p.csv"), "'p.csv' has 60 rows, 'q.npy' has 5 rows")
        fails(run("add", "s", "q.npy", "--payload", "p.txt"), "payload is read from .parquet, ")
        fails(run("add", "s", "q.npy", "--payload", "none.csv"), "there is no file 'none.csv'")
        Path("bad.csv").write_text("price\n1\nx\n")
        fails(run("add", "s", "q.npy", "--payload", "bad.csv"), "'bad.csv' cannot be read as payload: ")
        Path("bad.parquet").write_text("price\n1\nx\n")
        fails(run("add", "s", "q.npy", "--payload", "bad.parquet"), "'bad.parquet' cannot be read as payload: ")
        Path("empty.jsonl").write_text("")
        fails(run("add", "s", "q.npy", "--payload", "empty.jsonl"), "its columns are none, those of the store 'price'")
        Path("bad.jsonl").write_text('{"price": 1}\n\n{"price": }\n')
        fails(run("add", "s", "q.npy", "--payload", "bad.jsonl"), "'bad.jsonl': line 3: not JSON: ")
        Path("bad.jsonl").write_text('{"price": "1"}\n')
        fails(run("add", "s", "q.npy", "--payload", "bad.jsonl"), "'bad.jsonl': payload column 'price' must be float")
        piped(monkeypatch, '{"vector": [1, 2, 3, 4, 5, 6], "payload": {"price": 1}}\n')
        fails(run("add", "s", "-", "--payload", "p.csv"), "contain column values: do not pass --payload")
        piped(monkeypatch, "1,2,3,4,5,6\n")
        fails(
            run("add", "s", "-", "--payload", "p.csv"), "'p.csv' has 60 rows, '-' only 1 rows; 1 earlier row was added"
        )
        assert run("create", "t", "--from", "x.books")[0] == 0
        fails(run("add", "t", "rows.npy", "--payload", "p.csv"), "payload ('p.csv') needs a store with columns")
        piped(monkeypatch, '{"vector": [1, 2, 3, 4, 5, 6], "payload": {"price": 1}}\n')
        fails(run("add", "t", "-"), "payload needs a store with columns")


class TestSearch:
    def test_filter(self, run: Run, store: Path) -> None:
        code, out, _ = run("search", "s", "q.npy", "-k", 4, "--filter", "price < 3 and tag == 'a'", "--json")
        assert code == 0
        allowed = [i for i in range(N) if PRICES[i] is not None and PRICES[i] < 3 and TAGS[i] == "a"]
        found = json.loads(out)["hits"]
        assert [set(hit["ids"]) <= set(allowed) for hit in found] == [True] * 5
        expected = il.open("s").search(Q, 4, filter=allowed, margin="exact")
        assert [hit["ids"] for hit in found] == [row[row >= 0].tolist() for row in expected.ids]
        fails(run("search", "s", "q.npy", "--filter", "colour == 1"), "no such column; the store has 'price'")
        fails(run("search", "s", "q.npy", "--filter", "price = 1"), "cannot be read")

    def test_columns_of_hits(self, run: Run, store: Path) -> None:
        found = json.loads(run("search", "s", "q.npy", "-k", 3, "--payload", "--json")[1])["hits"]
        assert all(hit["payload"] == [ROWS[i] for i in hit["ids"]] for hit in found)
        out = run("search", "s", "q.npy", "-k", 6, "--payload", "--show", 1)[1].splitlines()
        first = found[0]["ids"][0]
        assert out[0] == "query 0:"
        assert out[1].startswith(f"  {first} (")
        assert "price=None" in out[1] if PRICES[first] is None else f"price={PRICES[first]:g}" in out[1]
        assert out[6] == "  ..."

    def test_originals(self, run: Run, store: Path) -> None:
        opened = il.open("s")
        out = json.loads(run("search", "s", "q.npy", "-k", 3, "--rerank", 20, "--json")[1])
        expected = opened.search(Q, 3, rerank=20)
        assert [hit["ids"] for hit in out["hits"]] == expected.ids.tolist()
        assert out["stats"]["reranked"] == 100
        fails(run("search", "s", "q.npy", "--recall", 0.9), "calibrate")
        assert run("calibrate", "s", "--threads", 1)[0] == 0
        out = json.loads(run("search", "s", "q.npy", "-k", 3, "--recall", 0.9, "--json")[1])
        assert [hit["ids"] for hit in out["hits"]] == il.open("s").search(Q, 3, recall=0.9).ids.tolist()
        assert run("search", "s", "q.npy", "--recall", 0.9, "--rerank", 9)[0] == 2
        assert run("search", "s", "q.npy", "--recall", 1.5)[0] == 2

    def test_blocks_of_queries(self, run: Run, store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """All of them are summed up, and all keep to the filter."""
        from interlace.cli import search

        whole = run("search", "s", "q.npy", "--filter", "price < 9", "--rerank", 15, "--offset", 1, "--json")[1]
        monkeypatch.setattr(search, "QUERIES_PER_BLOCK", 2)
        parts = run("search", "s", "q.npy", "--filter", "price < 9", "--rerank", 15, "--offset", 1, "--json")[1]
        a, b = json.loads(whole), json.loads(parts)
        assert a["hits"] == b["hits"]
        assert a["stats"]["reranked"] == b["stats"]["reranked"] == 75

    def test_offset(self, run: Run) -> None:
        """Of an index, too."""
        found = [json.loads(run("search", "x.index", "q.npy", *how, "--json")[1])["hits"] for how in
                 (("-k", 5), ("-k", 3, "--offset", 2))]  # fmt: skip
        assert [hit["ids"][2:] for hit in found[0]] == [hit["ids"] for hit in found[1]]

    @pytest.mark.parametrize("how", [("--filter", "a < 1"), ("--payload",)])
    def test_only_for_stores(self, run: Run, how: tuple[object, ...]) -> None:
        fails(run("search", "x.index", "q.npy", *how), f"{how[0]} needs a store, 'x.index' is an index")

    def test_originals_of_an_index(self, run: Run) -> None:
        for how in (("--rerank", 20), ("--recall", 0.9)):
            fails(run("search", "x.index", "q.npy", *how), f"{how[0][2:]} needs kept originals")
        np.save("v.npy", np.random.default_rng(0).normal(size=(500, 6)))
        np.save("w.npy", np.random.default_rng(1).normal(size=(4, 6)))
        assert run("build", "v.npy", "-o", "y.index", "--n-bytes", 3, "--originals", "int8")[0] == 0
        found = json.loads(run("search", "y.index", "w.npy", "--rerank", 20, "--json")[1])
        assert found["stats"]["reranked"] == 80
        assert json.loads(run("evaluate", "y.index", "--rerank", 50, "--json")[1])["recall@10"] > 0.5
        fails(
            run("create", "t", "--from", "y.index", "--originals", "float16"),
            "keeps the originals of its rows as 'int8'",
        )
        assert run("create", "t", "--from", "y.index")[0] == 0
        assert json.loads(run("search", "t", "w.npy", "--rerank", 20, "--json")[1])["hits"] == found["hits"]

    def test_stores_without(self, run: Run) -> None:
        assert run("create", "t", "--from", "x.index")[0] == 0
        fails(run("search", "t", "q.npy", "--filter", "a < 1"), "needs a store with columns")
        fails(run("search", "t", "q.npy", "--rerank", 20), "rerank needs kept originals")
        fails(run("search", "t", "q.npy", "--payload"), "'t' has no columns: do not pass --payload")


class TestGet:
    def test_comes_back(self, run: Run, store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """What get prints, add reads: the same columns and originals."""
        Path("ids.txt").write_text("".join(f"{i}\n" for i in range(N)))
        out = run("get", "s", "ids.txt", "--originals")[1]
        assert [json.loads(line)["payload"] for line in out.splitlines()] == ROWS
        assert run("create", "t", "--from", "x.books", *COLUMNS, "--originals", "float16")[0] == 0
        piped(monkeypatch, out)
        assert run("add", "t", "-")[0] == 0
        one, two = il.open("s"), il.open("t")
        assert told(two) == ROWS
        np.testing.assert_array_equal(one.get(one.ids, originals=True), two.get(two.ids, originals=True))
        assert run("get", "s", "--id", 7, "--originals", "-o", "v.npy")[0] == 0
        np.testing.assert_array_equal(np.load("v.npy"), one.get([7], originals=True))

    def test_values_that_json_does_not_have(self, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
        kinds = {"t": pa.timestamp("us"), "d": pa.decimal128(6, 2), "b": pa.binary(), "l": pa.list_(pa.int8())}
        row = {"t": "2024-01-02 03:04:05.678901", "d": "12.50", "b": "é", "l": [1, 2]}
        il.create("s", il.Codebooks.load("x.books"), columns=pa.schema(list(kinds.items()))).close()
        piped(monkeypatch, json.dumps({"vector": [0] * 6, "payload": row}) + "\n")
        assert run("add", "s", "-")[0] == 0
        assert json.loads(run("get", "s", "--id", 0)[1])["payload"] == row

    def test_no_originals(self, run: Run) -> None:
        assert run("create", "t", "--from", "x.index")[0] == 0
        fails(run("get", "t", "--id", 3, "--originals"), "needs kept originals")
        assert "payload" not in run("get", "t", "--id", 3)[1]


class TestOthers:
    def test_export(self, run: Run, store: Path) -> None:
        fails(run("export", "s", "-o", "e.index"), "--payload FILE.parquet")
        fails(run("export", "s", "-o", "e.index", "--payload", "e.csv"), "--payload must end with .parquet")
        fails(run("export", "s", "-o", "e.index", "--payload", "no/e.parquet"), "there is no folder 'no'")
        assert not Path("e.index").exists()
        assert run("export", "s", "-o", "e.index", "--no-payload")[0] == 0
        assert run("remove", "s", "--id", 0)[0] == 0
        code, out, _ = run("export", "s", "-o", "e.index", "--payload", "e.parquet")
        assert code == 0
        assert out.endswith("e.parquet: columns price, tag, day\n")
        assert run("create", "t", "--from", "e.index", *COLUMNS, "--payload", "e.parquet")[0] == 0
        assert told(il.open("t")) == ROWS[1:]
        assert il.open("t").ids.tolist() == list(range(1, N))
        assert run("create", "u", "--from", "x.index")[0] == 0
        fails(run("export", "u", "-o", "e.index", "--payload", "e.parquet"), "'u' has no columns")

    def test_calibrate(self, run: Run, folder: Path) -> None:
        assert run("create", "s", "--from", "x.books")[0] == 0
        np.save("many.npy", X)
        assert run("add", "s", "many.npy")[0] == 0
        assert json.loads(run("health", "s", "--json")[1])["calibrated"] is False
        fails(run("calibrate", "s", "q.npy", "--threads", 1), "at least 397")
        np.save("queries.npy", X[:500] + np.float32(0.01))
        code, out, err = run("calibrate", "s", "queries.npy", "--threads", 1)
        assert code == 0
        assert "3,944" in err  # too few for the default margin
        assert re.search("made for 700 rows with 4.. queries; there are 700 rows", out)  # some repeat each other
        assert json.loads(run("health", "s", "--json")[1])["calibrated"] is True
        found = json.loads(run("calibrate", "s", "--json", "--threads", 1)[1])
        assert (found["rows"], found["calibrated"]) == (700, True)
        fails(run("calibrate", "s", "missing.npy"), "there is no file 'missing.npy'")
        fails(run("calibrate", "nowhere"), "there is no store 'nowhere'")

    def test_relearn(self, run: Run, folder: Path) -> None:
        assert run("create", "s", "--from", "x.books", "--originals", "float16")[0] == 0
        np.save("many.npy", X * 3)
        assert run("add", "s", "many.npy")[0] == 0
        before = il.open("s").get(np.arange(700))
        code, out, err = run("relearn", "s", "--n-bytes", 3, "--seed", 1, "--threads", 1)
        assert (code, err) == (0, "")
        assert out.startswith("s: 700 rows encoded with new codebooks in ")
        after = il.open("s")
        assert after.codebooks.n_bytes == 3
        assert ((after.get(np.arange(700)) - X * 3) ** 2).sum() < ((before - X * 3) ** 2).sum()
        found = json.loads(run("relearn", "s", "--json", "--threads", 1)[1])
        assert (found["rows"], found["n_bytes"], found["layout"]) == (700, 3, "subspace")
        assert run("relearn", "s", "--metric", "ip")[0] == 2
        assert run("create", "t", "--from", "x.index")[0] == 0
        fails(run("relearn", "t"), "relearn needs kept originals")
