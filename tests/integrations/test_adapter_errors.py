"""Adapters of frameworks: bad input, other versions, and folders that another setting or crash has left."""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import sqlite3
import sys

import numpy as np
import pytest

import interlace as il
from interlace.integrations.documents import DocumentFolder
from interlace.integrations.frameworks import framework
from raising import raises

ADAPTERS = {
    "langchain": ("langchain-core", "langchain_core", "1.0"),
    "llama_index": ("llama-index-core", "llama_index.core", "0.14"),
    "haystack": ("haystack-ai", "haystack", "2.20"),
}


@pytest.fixture
def folder(tmp_path):
    made = DocumentFolder(tmp_path / "f", metric="l2")
    made.write(["a", "b"], [{"n": 1}, {"n": 2}], [[0.0, 1.0], [1.0, 0.0]])
    yield made
    made.close()


# --- other versions of a framework


@pytest.mark.parametrize("adapter", ADAPTERS)
def test_a_framework_that_is_missing_or_old_is_named_with_how_to_install_it(adapter, monkeypatch):
    package, module, least = ADAPTERS[adapter]
    name = f"interlace.integrations.{adapter}"
    for known in [known for known in sys.modules if known == name or known.split(".")[0] == module.split(".")[0]]:
        monkeypatch.delitem(sys.modules, known)
    monkeypatch.setitem(sys.modules, module.split(".")[0], None)  # importing it fails
    for found in (None, "0.0.1"):

        def version(of: str, found: str | None = found) -> str:
            if found is None:
                raise importlib.metadata.PackageNotFoundError(of)
            return found

        monkeypatch.setattr("interlace.integrations.frameworks.version", version)
        with raises(ImportError, package, least, f"interlace[{adapter.replace('_', '-')}]", *filter(None, [found])):
            importlib.import_module(name)


def test_a_newer_framework_that_lacks_a_name_is_told_from_a_missing_one(monkeypatch):
    monkeypatch.setattr("interlace.integrations.frameworks.version", lambda of: "9.1rc1")
    with raises(ImportError, "some-framework", "9.1rc1", "no_such_name"), framework("some-framework", "1.2", "some"):
        from os import no_such_name  # noqa: F401


# --- the folder


@pytest.mark.parametrize(
    ("ids", "data", "vectors", "facts"),
    [
        (["c", "d"], [{}, {}], [[0.0, 1.0]], (2, 1)),
        ([3], [{}], [[0.0, 1.0]], ("ids", 3)),
        ([""], [{}], [[0.0, 1.0]], ("ids",)),
        (["c"], [{"n": {1}}], [[0.0, 1.0]], ("c", "set")),
        (["c", "d"], [{}, {}], [[0.0, 1.0], [1.0]], ("dimensions", 1, 2)),
        (["c"], [{}], ["word"], ("numbers", "word")),
        (["c"], [{}], [[[0.0, 1.0]]], ("dimensions",)),
        (["c"], [{}], [[0.0, 1.0, 2.0]], (2, 3)),
        (["c"], [{}], [[0.0, float("nan")]], ("nan",)),
    ],
)
def test_a_bad_write_is_refused_and_nothing_of_it_is_kept(folder, ids, data, vectors, facts):
    with raises(il.InputError, *facts):
        folder.write(ids, data, vectors)
    assert sorted(name for name, _, _ in folder.all()) == ["a", "b"]
    assert len(folder.store) == 2


@pytest.mark.parametrize(
    ("query", "facts"), [([1.0], (1, 2)), ("word", ("numbers",)), ([[1.0, 2.0]], ("shape",)), (None, ("shape",))]
)
def test_a_bad_query_is_refused(folder, query, facts):
    with raises(il.InputError, *facts):
        folder.search(query, 1)


def test_a_folder_keeps_its_metric(folder, tmp_path):
    folder.close()
    with raises(il.InputError, "metric", "cosine", "l2"):
        DocumentFolder(tmp_path / "f", metric="cosine")
    again = DocumentFolder(tmp_path / "f")
    assert again.metric == "l2"
    again.close()
    with raises(il.InputError, "metric", "manhattan"):
        DocumentFolder(tmp_path / "g", metric="manhattan")


def test_a_second_opening_and_a_damaged_file_are_refused(folder, tmp_path):
    with pytest.raises(il.StoreError):
        DocumentFolder(tmp_path / "f")
    folder.close()
    (tmp_path / "f" / "documents.sqlite").write_bytes(b"no data base" * 100)
    with raises(il.DamagedFileError, "documents.sqlite"):
        DocumentFolder(tmp_path / "f")


def test_leftovers_of_a_crash_do_not_take_the_place_of_documents(folder):
    """A vector whose document was never committed, and one whose document was replaced by one without a vector."""
    folder.store.add(np.array([[0.9, 0.1]], np.float32), ["lost"])
    assert [name for name, _, _ in folder.search([1.0, 0.0], 1)] == ["b"]
    assert [name for name, _, _ in folder.search([0.9, 0.1], 2)] == ["b", "a"]
    with sqlite3.connect(f"{folder.path}/documents.sqlite") as base:
        base.execute("update documents set coded = 0 where id = 'b'")
    base.close()
    assert [name for name, _, _ in folder.search([1.0, 0.0], 5)] == ["a"]
    assert [name for name, _, _ in folder.search([1.0, 0.0], 5, lambda name, data: data["n"] == 2)] == []


def test_a_search_without_a_filter_does_not_read_all_documents(folder, monkeypatch):
    names = [f"n{i:03}" for i in range(100)]
    folder.write(names, [{"n": i} for i in range(100)], list(np.random.default_rng(0).normal(size=(100, 2))))
    loaded = []
    monkeypatch.setattr("interlace.integrations.documents.json.loads", lambda text: loaded.append(text) or {})
    assert len(folder.search([0.0, 0.0], 3)) == 3
    assert len(loaded) == 3


# --- errors of the frameworks


def adapter(name):
    module = ADAPTERS[name][1].split(".")[0]
    if importlib.util.find_spec(module) is None:
        pytest.skip(f"{module} is not installed: make conformance")
    return importlib.import_module(f"interlace.integrations.{name}")


def test_langchain_refuses_documents_without_vectors(tmp_path):
    module = adapter("langchain")
    from langchain_core.documents import Document
    from langchain_core.embeddings import Embeddings

    class Given(Embeddings):
        def __init__(self, *vectors):
            self.vectors = list(vectors)

        def embed_documents(self, texts):
            return self.vectors

        def embed_query(self, text):
            return self.vectors[0]

    store = module.InterlaceVectorStore(Given([0.0, 1.0]), path=tmp_path / "a")
    for given, texts in (([None], ["x"]), ([], ["x"]), ([[1.0, 2.0], [1.0]], ["x", "y"])):
        store.embeddings.vectors = given
        with pytest.raises(ValueError, match="vector"):
            store.add_texts(texts)
    store.embeddings.vectors = [[0.0, 1.0]]
    with raises(ValueError, "JSON"):
        store.add_documents([Document(page_content="x", metadata={"x": {1}})])
    with raises(ValueError, "ids", 7):
        store.add_documents([Document(page_content="x")], ids=[7])
    store.add_texts(["x"], ids=["x"])
    with raises(ValueError, 1, 2):
        store.similarity_search_by_vector([1.0])
    assert store.get_by_ids(["nothing"]) == []
    assert store.delete(["nothing"])
    store.close()
    with raises(ValueError, "metric"):
        module.InterlaceVectorStore(Given(), path=tmp_path / "a", metric="l2")


def test_haystack_errors_of_a_directory_are_its_own(tmp_path):
    module = adapter("haystack")
    from haystack.dataclasses import Document
    from haystack.document_stores.errors import DocumentStoreError

    store = module.InterlaceDocumentStore(tmp_path / "a", metric="l2")
    store.write_documents([Document(content="x", embedding=[0.0, 1.0])])
    with pytest.raises(DocumentStoreError):
        module.InterlaceDocumentStore(tmp_path / "a")  # open already
    store.close()
    with raises(DocumentStoreError, "metric", "cosine", "l2"):
        module.InterlaceDocumentStore(tmp_path / "a", metric="cosine")
    again = module.InterlaceDocumentStore(tmp_path / "a")
    assert again.to_dict()["init_parameters"]["metric"] == "l2"
    again.delete_documents(["nothing"])
    again.close()


def test_llama_index_keeps_the_metric_of_a_directory(tmp_path):
    module = adapter("llama_index")
    from llama_index.core.schema import TextNode

    store = module.InterlaceNodeStore(tmp_path / "a", metric="l2")
    store.add([TextNode(text="x", id_="x", embedding=[0.0, 1.0])])
    store.delete("no such document")
    store.close()
    with raises(ValueError, "metric", "cosine", "l2"):
        module.InterlaceNodeStore(tmp_path / "a", metric="cosine")
    again = module.InterlaceNodeStore(tmp_path / "a")
    assert again.metric == "l2"
    again.close()
