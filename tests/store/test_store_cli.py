"""`interlace verify` of a store."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from store_helpers import files_of, filled

from interlace import cli


def test_verify(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store, model = filled(tmp_path / "s")
    store.close()
    path = str(tmp_path / "s")
    assert cli.main(["verify", path]) == 0
    assert f"no damage, checked {len(model.rows)} rows" in capsys.readouterr().out
    assert cli.main(["verify", path, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["ok"], found["rows"], found["files"]) == (True, len(model.rows), len(files_of(tmp_path / "s")))
    segment = next(tmp_path.glob("s/segment-*"))
    data = bytearray(segment.read_bytes())
    data[-70] ^= 1
    segment.write_bytes(bytes(data))
    assert cli.main(["verify", path]) == 1
    assert segment.name in capsys.readouterr().err
    assert cli.main(["verify", path, "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["ok"] is False
    assert cli.main(["verify", str(tmp_path)]) == 1
    assert "a directory, but not a store" in capsys.readouterr().err
