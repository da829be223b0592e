"""What a type checker says of code that uses the library: right calls pass ``mypy --strict``, misspelled ones fail."""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any, get_args

import pytest

import interlace as il
from interlace.codec.encode import EFFORTS
from interlace.codec.metric import METRICS
from interlace.codec.originals import KINDS
from interlace.estimators.supervised import CROSS as CROSS_WITH_LABELS
from interlace.index.ids import STORED
from interlace.inputs import literals
from interlace.learn.layouts import LAYOUTS
from interlace.learn.recipe import LOSSES, OPTIMIZERS
from interlace.learn.settings import Settings

ROOT = Path(__file__).parents[1]

RIGHT = """
import math
import pickle

import numpy as np
import interlace as il

x = np.zeros((100, 8), np.float32)
index = il.Index.build(x, n_bytes=8, layout="hybrid", metric="cosine", effort="best", n_crude="auto", threads=1)
reason: str = "" if index.choice is None else index.choice.why
for margin in (0.99, math.inf):
    index.search(x, 5, margin=margin)
index.search(x, 5, margin="exact")
index.range_search(x, 0.5, margin="exact")
again: il.Index = pickle.loads(pickle.dumps(index))
bytes_per_vector: float = il.plan(10**6, 64, layout="residual", ids="string", measure=False).bytes_per_vector
with il.create("store", index.codebooks, originals="float16", columns={"n": "int32"}) as store:
    store.add(x, effort="fast")
    store.remove([1], missing="ignore")
with il.open("store", mode="a") as writer:
    writer.add(x)
    writer.compact()
with il.open("store") as opened:  # an index or a store
    opened.search(x, 5, margin="paper").ids
    if isinstance(opened, il.Store):
        opened.refresh()
model = il.ICQ(8, layout="subspace", loss="triplet", cross="constant").fit(x)
fitted: il.UnsupervisedICQ = il.UnsupervisedICQ(8, layout="subspace", cross="byte").fit(x)
il.SupervisedICQ(8, loss="triplet", cross="constant").fit(x, [0] * 100)
il.Neighbors(layout="residual", metric="ip", margin="exact").fit(x)
"""

#: Each line has one error.
WRONG = """
il.Index.build(x, n_byte=8)
il.Index.build(x, layout="hybird")
il.Index.build(x, metric="L2")
il.Index.build(x, effort="fastets")
il.Index.build(x, n_bytes="8")
il.plan(10**6, 64, n_byte=8)
il.plan(10**6, 64, layout="hybird")
il.plan(10**6, 64, ids="str")
il.ICQ(8, layout="hybird")
il.ICQ(8, los="triplet")
il.ICQ(8, loss="triplets")
il.UnsupervisedICQ(8, loss="triplet")
il.SupervisedICQ(8, layout="subspace")
il.Neighbors(metric="euclidean")
il.create("store", index.codebooks, originals="float32")
il.create("store", index.codebooks, original="float16")
il.open("store", mode="w")
il.open("store").compact()
index.search(x, 5, margin="exakt")
index.search(x, 5, margins=0.99)
index.search_by_id(1, 5, margin="papr")
writer.search(x, 5, margin="exakt")
writer.search(x, 5, rerank="100")
writer.remove([1], missing="ignored")
writer.add(x, effort="slow")
"""


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """What mypy says of all snippets, in one run; its cache is that of ``make check``."""
    pytest.importorskip("mypy", reason="mypy is not installed")
    folder = tmp_path_factory.mktemp("snippets")
    (folder / "right.py").write_text(RIGHT)
    (folder / "wrong.py").write_text("from right import il, index, writer, x\n" + WRONG)
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file", str(ROOT / "pyproject.toml")]
    command += ["--implicit-reexport", "--cache-dir", str(ROOT / ".mypy_cache"), "right.py", "wrong.py"]
    environment = {**os.environ, "MYPYPATH": str(ROOT / "src")}
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    return done.stdout.splitlines()


def test_right_calls_pass(said: list[str]) -> None:
    assert [line for line in said if not line.startswith(("wrong.py", "Found "))] == []


@pytest.mark.parametrize(("number", "line"), list(enumerate(WRONG.splitlines()))[1:])
def test_misspelled_calls_do_not(number: int, line: str, said: list[str]) -> None:
    assert any(text.startswith(f"wrong.py:{number + 2}: error") for text in said), line


def test_types_are_the_names_that_are_accepted() -> None:
    pairs: list[tuple[Any, Any]] = [
        (literals.Layout, ("auto", *LAYOUTS)),
        (literals.CrossWithLabels, CROSS_WITH_LABELS),
        (literals.Metric, METRICS),
        (literals.Effort, EFFORTS),
        (literals.Loss, LOSSES),
        (literals.Optimize, OPTIMIZERS),
        (literals.IdKind, STORED),
        (literals.OriginalsKind, KINDS),
    ]
    for kind, accepted in pairs:
        assert get_args(kind) == tuple(accepted)


@pytest.mark.parametrize("call", [il.Index.build, il.plan])
def test_settings_are_those_of_the_learner(call: Any) -> None:
    parameters = inspect.signature(call, eval_str=True).parameters
    types = inspect.get_annotations(Settings, eval_str=True)
    for field in fields(Settings):
        assert parameters[field.name].default == field.default, field.name
        assert parameters[field.name].annotation == types[field.name], field.name
        assert parameters[field.name].kind is inspect.Parameter.KEYWORD_ONLY
    estimator = inspect.signature(il.ICQ).parameters
    assert {field.name: estimator[field.name].default for field in fields(Settings)} == {
        field.name: field.default for field in fields(Settings)
    }
