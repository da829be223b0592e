"""`interlace create --dim`: a store that learns by itself, from the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import interlace as il
from helpers import clustered
from interlace import cli

LEARNING = ["--bytes", "4", "--n-words", "16", "--iterations", "1", "--effort", "fast", "--layout", "hybrid"]


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    assert cli.main([*arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_from_nothing_to_codes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    x = clustered(700, 6)
    np.save(tmp_path / "a.npy", x[:300])
    np.save(tmp_path / "b.npy", x[300:])
    store = str(tmp_path / "my.store")
    made = run(capsys, "create", store, "--dim", "6", "--metric", "cosine", "--learn-at", "500", *LEARNING)
    assert made == {
        "store": store,
        "from": None,
        "rows": 0,
        "dim": 6,
        "metric": "cosine",
        "n_bytes": 4,
        "learn_at": 500,
        "relearn": "auto",
        "columns": None,
        "originals": "float16",
    }
    added = run(capsys, "add", store, str(tmp_path / "a.npy"))
    assert (added["rows"], added["state"], added["learning_error"]) == (300, "collecting", None)
    assert run(capsys, "info", store)["state"] == "collecting"
    assert run(capsys, "health", store)["state"] == "collecting"
    assert cli.main(["info", store]) == 0
    assert "collecting" in capsys.readouterr().out
    assert cli.main(["export", store, "-o", str(tmp_path / "x.index")]) != 0
    assert "relearn()" in capsys.readouterr().err
    assert cli.main(["add", store, str(tmp_path / "b.npy")]) == 0
    assert "learned codebooks in" in capsys.readouterr().out
    found = il.open(store)
    assert (found.health().state, found.codebooks.n_bytes, len(found)) == ("learned", 4, 700)
    assert run(capsys, "info", store)["state"] == "learned"
    assert run(capsys, "verify", store)["ok"]


def test_manual(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.save(tmp_path / "a.npy", clustered(300, 6))
    store = str(tmp_path / "my.store")
    how = ["--dim", "6", "--learn-at", "200", "--relearn", "manual", "--originals", "none", "--column", "n:int32"]
    assert cli.main(["create", store, *how, *LEARNING]) == 0
    printed = capsys.readouterr().out
    assert "interlace relearn" in printed
    assert "200 rows" in printed
    assert run(capsys, "add", store, str(tmp_path / "a.npy"))["state"] == "collecting"
    advice = run(capsys, "health", store)["advice"]
    assert "relearn(): 300 rows" in advice[0]
    assert run(capsys, "relearn", store)["n_bytes"] == 4
    assert run(capsys, "health", store)["state"] == "learned"
    assert il.open(store).originals is None


def test_wrong_usage(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = str(tmp_path / "s")
    for arguments, facts in [
        ([], ["--from", "--dim"]),
        (["--dim", "0"], ["--dim", "positive"]),
        (["--dim", "4", "--from", "x"], ["--from", "--dim"]),
        (["--dim", "4", "--relearn", "never"], ["--relearn", "manual"]),
    ]:
        assert cli.main(["create", store, *arguments]) == 2
        text = capsys.readouterr().err
        assert all(fact in text for fact in facts), text
    assert cli.main(["create", store, "--dim", "4", "--bytes", "300"]) != 0
    assert "n_bytes must be at most 128" in capsys.readouterr().err
    il.Index.build(clustered(60, 4), n_bytes=2, n_words=8, threads=1).codebooks.save(tmp_path / "books")
    assert cli.main(["create", store, "--from", str(tmp_path / "books"), "--bytes", "3"]) != 0
    assert "n_bytes belongs to a store without a source" in capsys.readouterr().err
    assert not (tmp_path / "s").exists()
