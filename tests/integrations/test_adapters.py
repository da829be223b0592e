"""Adapters of LangChain, LlamaIndex and Haystack: filters, async, files, and errors of the framework's own types."""

from __future__ import annotations

import asyncio
import importlib.util

import numpy as np
import pytest

from raising import raises

TEXTS = ["red apple", "green apple", "red car", "blue car", "green tree"]
YEARS = [2001, 2005, 2009, 2013, 2017]


def vector(text: str) -> list[float]:
    """Words as dimensions."""
    words = ("red", "green", "blue", "apple", "car", "tree")
    return [float(word in text.split()) + 0.01 for word in words]


def need(module: str) -> None:
    if importlib.util.find_spec(module) is None:
        pytest.skip(f"{module} is not installed")


# --- LangChain


@pytest.fixture
def langchain(tmp_path):
    need("langchain_core")
    from langchain_core.embeddings import Embeddings

    from interlace.integrations.langchain import InterlaceVectorStore

    class Words(Embeddings):
        def embed_documents(self, texts):
            return [vector(text) for text in texts]

        def embed_query(self, text):
            return vector(text)

    def opened(**settings):
        return InterlaceVectorStore(Words(), path=tmp_path / "langchain", **settings)

    store = opened()
    store.add_texts(TEXTS, [{"year": year, "kind": text.split()[1]} for text, year in zip(TEXTS, YEARS, strict=True)])
    yield store, opened
    store.close()


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (None, TEXTS),
        ({"kind": "car"}, ["red car", "blue car"]),
        ({"year": {"$gte": 2005, "$lt": 2013}}, ["green apple", "red car"]),
        ({"$or": [{"kind": "tree"}, {"year": 2001}]}, ["red apple", "green tree"]),
        ({"$not": {"kind": {"$in": ["apple", "car"]}}}, ["green tree"]),
        ({"$and": [{"kind": {"$ne": "car"}}, {"year": {"$nin": [2001]}}]}, ["green apple", "green tree"]),
        ({"missing": {"$gt": 1}}, []),
        (lambda document: document.page_content.startswith("red"), ["red apple", "red car"]),
    ],
)
def test_langchain_filters(langchain, given, expected):
    store, _ = langchain
    found = store.similarity_search("red apple", k=9, filter=given)
    assert sorted(document.page_content for document in found) == sorted(expected)


@pytest.mark.parametrize(
    ("given", "facts"),
    [
        ({"year": {"$near": 3}}, ("$near",)),
        ({"$xor": []}, ("$xor",)),
        ({"$and": 3}, ("$and",)),
        ({"year": {"$in": 3}}, ("$in", "list")),
        ({"year": {"$gt": "x"}}, ("$gt", 2001)),
        ("year > 3", ("filter", "str")),
    ],
)
def test_langchain_refuses_bad_filters(langchain, given, facts):
    with raises(ValueError, *facts):
        langchain[0].similarity_search("red apple", filter=given)


def test_langchain_scores_files_and_async(langchain):
    store, opened = langchain
    ((best, score), *others) = store.similarity_search_with_score("red apple", k=3)
    assert best.page_content == "red apple"
    assert score == pytest.approx(1.0, abs=1e-3)
    assert all(score >= other for _, other in others)
    assert store.similarity_search_with_relevance_scores("red apple", k=1)[0][1] == pytest.approx(1.0, abs=1e-3)
    diverse = store.max_marginal_relevance_search("red apple", k=2, fetch_k=5, lambda_mult=0.1)
    assert len({document.page_content for document in diverse}) == 2
    found = asyncio.run(store.asimilarity_search("blue car", k=1))
    assert found[0].metadata == {"year": 2013, "kind": "car"}
    store.close()
    again = opened()
    assert again.get_by_ids([found[0].id])[0].page_content == "blue car"
    assert again.similarity_search("blue car", k=1)[0].id == found[0].id
    again.delete()
    assert again.similarity_search("blue car") == []
    with raises(ValueError, "ids", 2, 1):
        again.add_documents([best, best], ids=["one"])
    again.close()


# --- LlamaIndex


@pytest.fixture
def nodes():
    need("llama_index")
    from llama_index.core.schema import NodeRelationship, RelatedNodeInfo, TextNode

    made = []
    for number, (text, year) in enumerate(zip(TEXTS, YEARS, strict=True)):
        node = TextNode(text=text, id_=f"n{number}", metadata={"year": year, "tags": text.split()})
        node.embedding = vector(text)
        node.relationships[NodeRelationship.SOURCE] = RelatedNodeInfo(node_id=f"doc{number % 2}")
        made.append(node)
    return made


def test_llama_index(nodes, tmp_path):
    from llama_index.core.vector_stores.types import (
        FilterCondition,
        FilterOperator,
        MetadataFilter,
        MetadataFilters,
        VectorStoreQuery,
        VectorStoreQueryMode,
    )

    from interlace.integrations.llama_index import InterlaceNodeStore

    store = InterlaceNodeStore(tmp_path / "nodes")
    assert store.add(nodes) == [node.node_id for node in nodes]

    def found(filters=None, **more):
        query = VectorStoreQuery(query_embedding=vector("red apple"), similarity_top_k=9, filters=filters, **more)
        return store.query(query)

    result = found()
    assert result.ids[0] == "n0"
    assert result.similarities[0] == pytest.approx(1.0, abs=1e-3)
    assert result.nodes[0].get_content() == "red apple"
    assert result.nodes[0].metadata == nodes[0].metadata

    def one(key, value, how):
        return MetadataFilter(key=key, value=value, operator=how)

    late, red = one("year", 2009, FilterOperator.GTE), one("tags", "red", FilterOperator.CONTAINS)
    assert sorted(found(MetadataFilters(filters=[late])).ids) == ["n2", "n3", "n4"]
    assert found(MetadataFilters(filters=[late, red])).ids == ["n2"]
    either = MetadataFilters(filters=[late, red], condition=FilterCondition.OR)
    assert sorted(found(either).ids) == ["n0", "n2", "n3", "n4"]
    neither = MetadataFilters(filters=[late, red], condition=FilterCondition.NOT)
    assert found(MetadataFilters(filters=[neither])).ids == ["n1"]
    assert sorted(found(node_ids=["n1", "n2"]).ids) == ["n1", "n2"]
    assert sorted(found(doc_ids=["doc1"]).ids) == ["n1", "n3"]
    assert asyncio.run(store.aquery(VectorStoreQuery(query_embedding=vector("blue car"), similarity_top_k=1))).ids == [
        "n3"
    ]

    with raises(ValueError, "mode"):
        found(mode=VectorStoreQueryMode.SPARSE)
    with raises(ValueError, "query_embedding"):
        store.query(VectorStoreQuery(similarity_top_k=1))
    with raises(ValueError, "year", 2001):
        found(MetadataFilters(filters=[one("year", "x", FilterOperator.GT)]))
    nodes[0].embedding = None
    with pytest.raises(ValueError, match="embedding"):
        store.add(nodes[:1])
    nodes[0].embedding = [1.0, 2.0]
    with raises(ValueError, 2, 6):
        store.add(nodes[:1])

    store.persist("anywhere")
    store.close()
    again = InterlaceNodeStore(tmp_path / "nodes")
    assert [node.node_id for node in again.get_nodes()] == ["n0", "n1", "n2", "n3", "n4"]
    again.delete("doc1")
    again.delete_nodes(["n0"])
    assert sorted(node.node_id for node in again.get_nodes()) == ["n2", "n4"]
    again.clear()
    assert again.get_nodes() == []
    again.close()
    temporary = InterlaceNodeStore()
    with raises(ValueError, "temporary"):
        temporary.persist("anywhere")
    temporary.close()


# --- Haystack


def test_haystack(tmp_path):
    need("haystack")
    from haystack.dataclasses import Document
    from haystack.document_stores.errors import DocumentStoreError
    from haystack.errors import FilterError

    from interlace.integrations.haystack import InterlaceDocumentStore, InterlaceEmbeddingRetriever

    store = InterlaceDocumentStore(tmp_path / "documents")
    documents = [
        Document(content=text, meta={"year": year}, embedding=vector(text))
        for text, year in zip(TEXTS, YEARS, strict=True)
    ]
    assert asyncio.run(store.write_documents_async([*documents, Document(content="no vector")])) == 6
    retriever = InterlaceEmbeddingRetriever(store, top_k=3)
    assert retriever.to_dict()["init_parameters"]["document_store"] == store.to_dict()
    found = retriever.run(vector("red apple"))["documents"]
    assert found[0].content == "red apple"
    assert found[0].score == pytest.approx(1.0, abs=1e-3)
    assert found[0].embedding == documents[0].embedding
    late = {"field": "meta.year", "operator": ">=", "value": 2009}
    assert {d.content for d in retriever.run(vector("red apple"), filters=late, top_k=9)["documents"]} == {*TEXTS[2:]}
    assert len(retriever.run(vector("red apple"), top_k=99)["documents"]) == 5  # one has no vector
    with raises(DocumentStoreError, 2, 6):
        store.write_documents([Document(content="other", embedding=[1.0, 2.0])])
    with raises(DocumentStoreError, 2, 6):
        store.embedding_retrieval([1.0, 2.0])
    with pytest.raises(FilterError):
        store.filter_documents({"field": "meta.year", "operator": "near", "value": 3})
    with pytest.raises(FilterError):
        store.filter_documents(["year"])
    with pytest.raises(DocumentStoreError):
        store.write_documents([Document(content="bad", meta={"x": {1, 2}})])
    with raises(ValueError, "document_store"):
        InterlaceEmbeddingRetriever("store")
    assert store.count_documents() == 6
    described = store.to_dict()
    store.close()
    again = InterlaceDocumentStore.from_dict(described)
    assert again.filter_documents()[:5] == documents
    again.close()


# --- the folder that they share


def test_a_vector_without_its_document_is_not_found(tmp_path):
    """As after a crash between the two writes of a document."""
    from interlace.integrations.documents import DocumentFolder

    folder = DocumentFolder(tmp_path / "f", metric="l2")
    folder.write(["a", "b"], [{"n": 1}, {"n": 2}], [[0.0, 1.0], [1.0, 0.0]])
    folder.store.add(np.array([[0.5, 0.5]], np.float32), ["lost"])
    assert [name for name, _, _ in folder.search([0.5, 0.5], 5)] in (["a", "b"], ["b", "a"])
    folder.write(["b"], [{"n": 3}], [None])  # replaced by a document without a vector
    assert [name for name, _, _ in folder.search([1.0, 0.0], 5)] == ["a"]
    with raises(ValueError, "d", "JSON"):
        folder.write(["c", "d"], [{"n": 1}, {"n": {1}}], [[0.0, 1.0], [1.0, 0.0]])
    assert folder.known(["a", "b", "c", "d"]) == {"a", "b"}
    assert folder.delete(["a", "nothing"]) == 1
    assert len(folder) == 1
    folder.close()
