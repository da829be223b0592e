"""The command line as a user meets it: output, exit codes, one-line errors."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import warnings

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import interlace as il
from cli_checks import fails
from interlace import cli, evaluate
from interlace.cli import output, search

RNG = np.random.default_rng(0)
X = RNG.normal(size=(600, 16)).astype(np.float32)
QUERIES = RNG.normal(size=(12, 16)).astype(np.float32)
TRUTH, _ = evaluate.exact_neighbours(X, QUERIES, 20)
COMMANDS = (
    *("demo", "plan", "build", "search", "evaluate", "fit", "encode", "info", "verify", "serve", "ray", "reproduce"),
    *("create", "add", "remove", "get", "compact", "health", "calibrate", "relearn", "export"),
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Data, queries, truth and an index of four bytes, written once."""
    path = tmp_path_factory.mktemp("cli")
    np.save(path / "x.npy", X)
    np.save(path / "q.npy", QUERIES)
    np.save(path / "truth.npy", TRUTH)
    il.Index.build(X, n_bytes=4, threads=1).save(path / "x.index")
    return path


@pytest.fixture
def run(folder, monkeypatch, capsys):
    """Run the command in the folder of the files -> exit code, stdout, stderr."""
    monkeypatch.chdir(folder)

    def run(*args):
        code = cli.main([str(a) for a in args])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


class TestHelp:
    def test_overview_names_every_command(self, run):
        code, out, _ = run("--help")
        assert code == 0
        assert all(name in out for name in COMMANDS)

    @pytest.mark.parametrize("command", COMMANDS)
    def test_every_command_has_an_example(self, command, run):
        code, out, _ = run(command, "--help")
        assert code == 0
        assert f"  interlace {command}" in out.partition("example")[2]

    @pytest.mark.parametrize("command", COMMANDS)
    def test_examples_parse(self, command):
        """What help tells people to type is valid."""
        module = sys.modules[f"interlace.cli.{command}"]
        lines = [
            line.split("  ")[0] for line in map(str.strip, module.EPILOG.splitlines()) if line.startswith("interlace ")
        ]
        for line in lines:
            assert cli.parser().parse_args(re.split("&&|<", line)[0].split()[1:]).command == command
        assert lines

    @pytest.mark.parametrize("columns", [80, 300])
    @pytest.mark.parametrize("command", [None, *COMMANDS])
    def test_help_fits_the_terminal(self, command, columns, run, monkeypatch):
        """Examples too, which go on as the shell wants it."""
        monkeypatch.setenv("COLUMNS", str(columns))
        code, out, _ = run(*([] if command is None else [command]), "--help")
        assert code == 0
        lines = out.splitlines()
        assert [line for line in lines if len(line) > min(columns, 100)] == []
        if command is not None:
            module = sys.modules[f"interlace.cli.{command}"]
            examples = [" ".join(line.split()) for line in module.EPILOG.splitlines() if "  interlace " in line]
            assert all(line in " ".join(out.replace("\\\n", "").split()) for line in examples)

    def test_version(self, run):
        assert run("--version") == (0, f"interlace {il.__version__} ({il.simd_level()})\n", "")

    @pytest.mark.parametrize("args", [("--help",), ("build", "--help")])
    def test_help_imports_nothing_heavy(self, args):
        code = (
            "import sys, interlace.cli as cli; cli.main(sys.argv[1:]);"
            "sys.exit(bool({'faiss', 'sklearn', 'matplotlib', 'pyarrow', 'h5py', 'torch'} & sys.modules.keys()))"
        )
        done = subprocess.run([sys.executable, "-c", code, *args], stdout=subprocess.DEVNULL)
        assert done.returncode == 0


class TestUsage:
    def test_no_command_shows_the_help(self, run):
        code, out, err = run()
        assert code == 2
        assert out == ""
        assert err.startswith("usage: interlace")

    @pytest.mark.parametrize(
        ("args", "message"),
        [
            (("paint",), "invalid choice: 'paint'"),
            (("build", "x.npy"), "-o/--output"),
            (("build", "x.npy", "-o", "y", "--n-bytes", "0"), "positive integer, got '0'"),
            (("build", "x.npy", "-o", "y", "--n-bytes", "8", "--n-books", "8"), "not allowed with"),
            (("build", "x.npy", "-o", "y", "--layout", "round"), "invalid choice: 'round'"),
            (("build", "x.npy", "-o", "y", "--seed", "-1"), "integer of at least 0, got '-1'"),
            (("search", "x.index", "q.npy", "-k", "many"), "positive integer, got 'many'"),
            (("search", "x.index", "q.npy", "--margin", "1.5"), "between 0 and 1, got '1.5'"),
            (("search", "x.index", "q.npy", "--margin", "nan"), "between 0 and 1, got 'nan'"),
            (("info",), "FILE"),
        ],
    )
    def test_wrong_usage_is_exit_code_2(self, args, message, run):
        fails(run(*args), message, 2)


class TestBuild:
    def test_report_and_file(self, run, folder):
        code, out, err = run("build", "x.npy", "-o", "built.index", "--n-bytes", 4, "--threads", 1)
        assert (code, err) == (0, "")
        assert "built.index" in out
        assert "600 rows" in out
        assert "n_bytes=4" in out
        index = il.open(folder / "built.index")
        assert len(index) == 600
        assert index.codebooks == il.open(folder / "x.index").codebooks

    def test_every_option_arrives(self, run, folder):
        args = (
            "--n-books",
            3,
            "--layout",
            "subspace",
            "--metric",
            "cosine",
            "--n-crude",
            1,
            "--seed",
            7,
            "--threads",
            1,
        )
        code, out, _ = run("build", "x.npy", "-o", "options.index", *args, "--json")
        found = json.loads(out)
        assert code == 0
        assert (found["layout"], found["metric"], found["n_bytes"], found["rows"]) == ("subspace", "cosine", 3, 600)
        assert found["file_bytes"] == (folder / "options.index").stat().st_size
        assert found["report"]["codes"] > 0
        wanted = il.Index.build(X, n_books=3, layout="subspace", metric="cosine", n_crude=1, seed=7, threads=1)
        assert il.open(folder / "options.index").codebooks == wanted.codebooks

    def test_options_of_learning_arrive(self, run, folder):
        options = {"layout": "residual", "cross": "byte", "effort": "best", "iterations": 1, "n_words": 16}
        options |= {"n_bytes": 4, "rotation": "none", "max_train_rows": 300, "seed": 3}
        args = [part for name, value in options.items() for part in (f"--{name.replace('_', '-')}", value)]
        assert run("build", "x.npy", "-o", "learned.index", *args, "--max-memory", "50MB", "--threads", 1)[0] == 0
        wanted = il.Index.build(X, **options, max_memory="50MB", threads=1)
        assert il.open(folder / "learned.index").codebooks == wanted.codebooks
        fails(run("build", "x.npy", "-o", "bad.index", "--max-memory", "much"), "max_memory must be a positive")
        fails(run("build", "x.npy", "-o", "bad.index", "--max-memory", "9"), "max_memory allows 9")

    def test_the_choice_is_told(self, run):
        args = ("build", "x.npy", "-o", "auto.index", "--n-bytes", 3, "--threads", 1)
        why = "the usual one; 600 rows are too few to compare layouts (32768)"
        assert f"layout 'hybrid': {why}" in run(*args)[1]
        assert json.loads(run(*args, "--json")[1])["choice"]["why"] == why
        assert "layout 'subspace': asked for" in run(*args, "--layout", "subspace")[1]

    def test_ctrl_c_while_learning_leaves_nothing(self, run, folder, monkeypatch):
        def interrupted(*_):
            raise KeyboardInterrupt

        monkeypatch.setattr("interlace.learn.books.refit", interrupted)
        args = ("build", "x.npy", "-o", "half.index", "--layout", "residual", "--n-bytes", 3, "--threads", 1)
        fails(run(*args), "interrupted", 130)
        assert not (folder / "half.index").exists()

    def test_key(self, run, folder):
        np.savez(folder / "two.npz", a=X, b=QUERIES)
        fails(run("build", "two.npz", "-o", "two.index"), "choose one with key")
        assert run("build", "two.npz", "--key", "a", "-o", "two.index", "--n-bytes", 2, "--threads", 1)[0] == 0

    @pytest.mark.parametrize(
        ("name", "ids"),
        [
            ("ids.npy", np.arange(600) * 3 - 101),
            ("ids.npy", np.array([f"é{i}" for i in range(600)])),
            ("ids.txt", [f"{i:03d}" for i in range(600)]),  # leading zeros are part of a name
            ("ids.txt", [2 * i - 300 for i in range(600)]),
        ],
    )
    def test_ids(self, name, ids, run, folder):
        if name == "ids.npy":
            np.save(folder / name, ids)
        else:
            (folder / name).write_text("\n".join(map(str, ids)) + "\n", encoding="utf-8")
        code, _, err = run("build", "x.npy", "-o", "ids.index", "--ids", name, "--n-bytes", 2, "--threads", 1)
        assert (code, err) == (0, "")
        assert il.open(folder / "ids.index").ids.tolist() == list(ids)

    def test_bad_ids(self, run, folder):
        (folder / "few.txt").write_text("1\n2\n")
        fails(run("build", "x.npy", "-o", "bad.index", "--ids", "few.txt"), "600 expected, got")
        (folder / "binary.txt").write_bytes(b"\xff\xfe\x00")
        fails(run("build", "x.npy", "-o", "bad.index", "--ids", "binary.txt"), "UTF-8 text with one id per line")
        (folder / "bad.npy").write_bytes(b"no array")
        fails(run("build", "x.npy", "-o", "bad.index", "--ids", "bad.npy"), "'bad.npy' cannot be read as .npy")
        assert not (folder / "bad.index").exists()

    def test_targets_that_cannot_be_written_are_refused_first(self, run, folder):
        before = (folder / "x.npy").read_bytes()
        fails(run("build", "x.npy", "-o", "x.npy"), "'x.npy' is also an input")
        fails(run("build", "x.npy", "-o", "q.npy"), "not overwriting 'q.npy'")
        fails(run("build", "x.npy", "-o", "."), "it is a directory")
        fails(run("build", "x.npy", "-o", "gone/x.index"), "there is no folder 'gone'")
        assert (folder / "x.npy").read_bytes() == before

    @pytest.mark.parametrize("old", ["empty", "index", "damaged"])
    def test_an_old_index_is_replaced(self, old, run, folder):
        target = folder / "old.index"
        target.write_bytes(
            b"" if old == "empty" else (folder / "x.index").read_bytes()[: -1 if old == "damaged" else None]
        )
        assert run("build", "x.npy", "-o", "old.index", "--n-bytes", 2, "--threads", 1)[0] == 0
        assert il.open(target).codebooks.n_bytes == 2

    def test_bad_data(self, run, folder):
        np.save(folder / "nan.npy", np.where(np.arange(16) == 3, np.nan, X[:2]))
        fails(run("build", "nan.npy", "-o", "bad.index"), "x[0, 3] is nan")
        fails(run("build", "gone.npy", "-o", "bad.index"), "there is no file 'gone.npy'")
        fails(run("build", "x.csv", "-o", "bad.index"), "unknown extension")


class TestSearch:
    def test_hits_and_stats(self, run):
        code, out, err = run("search", "x.index", "q.npy", "-k", 3, "--margin", "exact", "--threads", 1, "--show", 2)
        assert (code, err) == (0, "")
        lines = out.splitlines()
        ids, distances = il.open("x.index").search(QUERIES, 3, margin="exact", threads=1)
        assert lines[0].startswith(f"query 0: {ids[0, 0]} ({distances[0, 0]:.4g})")
        assert lines[1].startswith("query 1: ")
        assert "10 more queries" in lines[2]
        assert "12 queries x 600 rows, margin exact: scanned" in out
        assert "microseconds per query" in out

    @pytest.mark.parametrize("margin", ["0.99", "exact", "paper", "inf"])
    def test_json_holds_the_pruning_report(self, margin, run):
        code, out, _ = run("search", "x.index", "q.npy", "--margin", margin, "--json", "--threads", 1, "--show", 1)
        found = json.loads(out)
        assert code == 0
        assert found["stats"]["queries"] == 12
        assert {"scanned", "survivors", "lookups", "ops_per_vector", "seconds", "margin"} <= found["stats"].keys()
        assert len(found["hits"]) == 1
        assert len(found["hits"][0]["ids"]) == 10

    def test_truth_gives_recall(self, run, folder):
        wanted = evaluate.recall(il.open(folder / "x.index").search(QUERIES, margin="exact", threads=1), TRUTH, 10)
        args = ("search", "x.index", "q.npy", "--margin", "exact", "--threads", 1, "--truth")
        assert f"recall@10: {wanted:.4f}" in run(*args, "truth.npy")[1]
        rows = TRUTH.astype("<i4")
        np.concatenate([np.full((12, 1), 20, "<i4"), rows], 1).tofile(folder / "truth.ivecs")
        np.savez(folder / "all.npz", q=QUERIES, truth=rows)
        assert json.loads(run(*args, "truth.ivecs", "--json")[1])["recall"] == pytest.approx(wanted)
        assert json.loads(run(*args, "all.npz", "--truth-key", "truth", "--json")[1])["recall"] == pytest.approx(wanted)

    def test_truth_that_does_not_fit(self, run, folder):
        args = ("search", "x.index", "q.npy", "--truth")
        np.save(folder / "short.npy", TRUTH[:3])
        fails(run(*args, "short.npy"), "12 queries, true_ids has 3")
        fails(run(*args, "truth.npy", "-k", 30), "true_ids has 20")
        fails(run(*args, "x.npy"), "must hold ids [queries, neighbours]")
        fails(run(*args, "gone.npy"), "there is no file 'gone.npy'")

    def test_output(self, run, folder):
        assert run("search", "x.index", "q.npy", "--output", "hits.npz", "--margin", "exact", "--threads", 1)[0] == 0
        wanted = il.open(folder / "x.index").search(QUERIES, margin="exact", threads=1)
        with np.load(folder / "hits.npz") as hits:
            assert_array_equal(hits["ids"], wanted.ids)
            assert_array_equal(hits["distances"], wanted.distances)
            assert_array_equal(hits["counts"], wanted.counts)
        fails(run("search", "x.index", "q.npy", "--output", "hits.csv"), "--output must end with .npz")
        fails(run("search", "x.index", "q.npy", "--output", "gone/hits.npz"), "No such file or directory")
        assert not [name for name in os.listdir(folder) if name.endswith(".tmp")]

    def test_string_ids_and_fewer_rows_than_k(self, run, folder):
        il.Index.build(X[:4], n_bytes=2, ids=["a", "bb", "ccc", "ü"], threads=1).save(folder / "names.index")
        code, out, _ = run("search", "names.index", "q.npy", "-k", 6, "--output", "names.npz", "--threads", 1, "--json")
        assert code == 0
        assert set(json.loads(out)["hits"][0]["ids"]) == {"a", "bb", "ccc", "ü"}
        with np.load(folder / "names.npz", allow_pickle=False) as hits:
            assert hits["ids"][0, 4:].tolist() == ["", ""]
            assert hits["counts"].tolist() == [4] * 12
        assert "(" in run("search", "names.index", "q.npy", "--threads", 1)[1]

    def test_blocks_change_nothing(self, folder, monkeypatch):
        index = il.open(folder / "x.index")
        whole = index.search(QUERIES, 5, threads=1)
        monkeypatch.setattr(search, "QUERIES_PER_BLOCK", 5)
        seen = []
        found = search.search(index, QUERIES, 5, lambda what, done: seen.append(done), margin=0.999, threads=1)
        assert_array_equal(found.ids, whole.ids)
        assert_array_equal(found.distances, whole.distances)
        assert_array_equal(found.counts, whole.counts)
        for name in ("queries", "rows", "cells", "scanned", "survivors", "lookups", "margin"):
            assert getattr(found.stats, name) == getattr(whole.stats, name)
        assert seen == pytest.approx([0, 5 / 12, 10 / 12, 1])

    def test_no_queries(self, run, folder):
        np.save(folder / "none.npy", QUERIES[:0])
        code, out, err = run("search", "x.index", "none.npy", "--threads", 1)
        assert (code, err) == (0, "")
        assert "0 queries x 600 rows" in out

    def test_wrong_files(self, run, folder):
        np.save(folder / "narrow.npy", QUERIES[:, :3])
        fails(run("search", "x.index", "narrow.npy"), "queries has 3 dimensions, the index has 16")
        fails(run("search", "x.npy", "q.npy"), "a NumPy .npy array")
        fails(run("search", "gone.index", "q.npy"), "'gone.index': No such file or directory")


class TestInfo:
    def test_text(self, run):
        code, out, _ = run("info", "x.index")
        assert code == 0
        index = il.open("x.index")
        for part in ("index, format version 2", "600", "default", "hybrid", repr(index.codebooks), str(index.report())):
            assert part in out
        assert "segment.crude" in out

    def test_json_lists_every_section(self, run, folder):
        found = json.loads(run("info", "x.index", "--json")[1])
        assert (found["kind"], found["version"], found["rows"], found["ids"]) == ("index", 2, 600, "default")
        assert found["calibration"]["n"] == 600
        sections = {s["name"]: s for s in found["sections"]}
        assert sections["codebooks.mean"] == {"name": "codebooks.mean", "dtype": "F32", "shape": [16], "bytes": 64}
        assert sum(s["bytes"] for s in found["sections"]) <= found["file_bytes"] == (folder / "x.index").stat().st_size

    def test_codebooks_and_indexes_without_calibration(self, run, folder):
        codebooks = il.open(folder / "x.index").codebooks
        codebooks.save(folder / "x.books")
        il.Index(codebooks).save(folder / "empty.index")
        code, out, _ = run("info", "x.books")
        assert code == 0
        assert "codebooks, format version 2" in out
        assert "rows" not in json.loads(run("info", "x.books", "--json")[1])
        assert "none: a margin below 1 runs exactly" in run("info", "empty.index")[1]

    def test_other_files(self, run, folder):
        fails(run("info", "x.npy"), "a NumPy .npy array")
        fails(run("info", "."), "is a directory")
        (folder / "half.index").write_bytes((folder / "x.index").read_bytes()[:-100])
        fails(run("info", "half.index"), "truncated")


class TestVerify:
    def test_sound_files(self, run, folder):
        code, out, err = run("verify", "x.index")
        assert (code, err) == (0, "")
        assert "x.index: no damage" in out
        il.open(folder / "x.index").codebooks.save(folder / "v.books")
        assert run("verify", "v.books")[0] == 0
        assert json.loads(run("verify", "v.books", "--json")[1])["ok"] is True

    @pytest.mark.parametrize("name", ["x.index", "w.books"])
    def test_a_flipped_bit(self, name, run, folder):
        il.open(folder / "x.index").codebooks.save(folder / "w.books")
        damaged = bytearray((folder / name).read_bytes())
        damaged[-70] ^= 4
        (folder / "damaged").write_bytes(damaged)
        fails(run("verify", "damaged"), "is damaged")
        code, out, err = run("verify", "damaged", "--json")
        assert code == 1
        assert json.loads(out)["ok"] is False
        assert err.startswith("interlace: error: ")

    def test_other_files(self, run):
        fails(run("verify", "gone.index"), "No such file or directory")
        fails(run("verify", "x.npy"), "a NumPy .npy array")


class TestErrors:
    def test_debug_shows_the_traceback(self, run):
        for args in (("--debug", "info", "x.npy"), ("info", "x.npy", "--debug")):
            with pytest.raises(il.NotAnIndexError):
                run(*args)

    def test_what_nobody_foresaw_is_one_line_too(self, run, monkeypatch):
        def broken(path):
            raise RuntimeError("first line\nsecond line")

        monkeypatch.setattr("interlace.files.storage.read", broken)
        fails(run("info", "x.index"), "unexpected RuntimeError: first line second line; --debug shows where")

    @pytest.mark.parametrize(
        ("error", "code", "message"), [(KeyboardInterrupt, 130, "interrupted"), (MemoryError, 1, "not enough memory")]
    )
    def test_interrupts_and_memory(self, error, code, message, run, monkeypatch):
        def stop(path):
            raise error

        monkeypatch.setattr("interlace.files.storage.read", stop)
        fails(run("info", "x.index"), message, code)

    def test_a_closed_pipe_is_silent(self, folder):
        """`interlace info FILE | head -0`, and the module as a command."""
        read_end, write_end = os.pipe()
        os.close(read_end)
        command = [sys.executable, "-m", "interlace.cli", "info", str(folder / "x.index")]
        done = subprocess.run(command, stdout=write_end, stderr=subprocess.PIPE)
        os.close(write_end)
        assert (done.returncode, done.stderr) == (1, b"")


class TestProgress:
    def test_silence_without_a_terminal(self, capsys):
        with output.progress_bar() as show:
            show("working", 0.5)
        assert capsys.readouterr().err == ""

    def test_a_bar_on_a_terminal_after_a_second(self, capsys, monkeypatch):
        monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
        clock = [0.0]
        monkeypatch.setattr("interlace.progress.time.monotonic", lambda: clock[0])
        with output.progress_bar() as show:
            show("learning", 0.1)
            assert capsys.readouterr().err == ""
            clock[0] = 5.0
            show("coding", 0.5)
            assert "coding" in (shown := capsys.readouterr().err)
            assert "50%" in shown
            show("done", 1.0000001)
            assert capsys.readouterr().err.strip() == ""  # gone

    def test_the_bar_goes_where_the_work_breaks_off(self, capsys, monkeypatch):
        monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
        clock = [0.0]
        monkeypatch.setattr("interlace.progress.time.monotonic", lambda: clock[0])
        with pytest.raises(KeyboardInterrupt), output.progress_bar() as show:  # noqa: PT012
            clock[0] = 5.0
            show("coding", 0.5)
            raise KeyboardInterrupt
        assert capsys.readouterr().err.endswith(" \r")

    def test_warnings_are_lines_beside_the_bar(self, capsys, monkeypatch):
        monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
        clock = [0.0]
        monkeypatch.setattr("interlace.progress.time.monotonic", lambda: clock[0])
        with output.warnings_in_a_line() as said, output.progress_bar() as show:
            clock[0] = 5.0
            show("coding", 0.5)
            warnings.warn("few\n rows", il.FewRowsWarning, stacklevel=1)
            assert capsys.readouterr().err.endswith(" \rinterlace: warning: few rows\n")
            show("coding", 0.6)
            assert capsys.readouterr().err.startswith("\r[")
        assert [type(warning) for warning in said] == [il.FewRowsWarning]


def test_json_has_no_nan(capsys):
    output.print_json({"a": [np.float32(1.5), float("nan"), np.inf], 3: np.arange(2), "s": np.str_("x")})
    assert json.loads(capsys.readouterr().out) == {"a": [1.5, None, None], "3": [0, 1], "s": "x"}
