"""The Qdrant stores of LangChain and LlamaIndex against the server, where they are installed."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from serve_helpers import Running

pytest.importorskip("qdrant_client", reason="qdrant-client is not installed")
TEXTS = ["a red apple", "a green apple", "a fast train", "a slow train", "the blue sea", "the black sea"]


def embedded(text: str) -> list[float]:
    """Words -> dimensions: texts with the same words are near."""
    out = np.zeros(128)
    for word in text.split():
        out += np.random.default_rng(list(word.encode())).normal(size=128)
    return (out / np.linalg.norm(out)).tolist()


def test_langchain(served: Running) -> None:
    langchain = pytest.importorskip("langchain_qdrant", reason="langchain-qdrant is not installed")
    from langchain_core.documents import Document
    from langchain_core.embeddings import Embeddings
    from qdrant_client import models

    class Words(Embeddings):
        def embed_documents(self, texts: list[str]) -> list[list[float]]:
            return [embedded(text) for text in texts]

        def embed_query(self, text: str) -> list[float]:
            return embedded(text)

    documents = [Document(page_content=text, metadata={"n": i}) for i, text in enumerate(TEXTS)]
    store = langchain.QdrantVectorStore.from_documents(documents, Words(), url=served.url, collection_name="langchain")
    try:
        found = store.similarity_search("a red apple", k=2)
        assert [d.page_content for d in found] == ["a red apple", "a green apple"]
        assert found[0].metadata["n"] == 0
        store.client.create_payload_index("langchain", "metadata.n", field_schema="integer")
        late = models.Filter(must=[models.FieldCondition(key="metadata.n", range=models.Range(gte=2))])
        assert store.similarity_search("a red apple", k=1, filter=late)[0].metadata["n"] >= 2
        scored = store.similarity_search_with_score("the blue sea", k=1)
        assert scored[0][1] == pytest.approx(1, abs=0.01)
        ids = store.add_texts(["a new thing"])
        assert store.get_by_ids(ids)[0].page_content == "a new thing"
        store.delete(ids)
        assert store.get_by_ids(ids) == []
        assert store.max_marginal_relevance_search("train", k=2)
    finally:
        store.client.close()


def test_llama_index(served: Running) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        llama: Any = pytest.importorskip(
            "llama_index.vector_stores.qdrant", reason="llama-index-vector-stores-qdrant is not installed"
        )
        from llama_index.core.schema import TextNode
        from llama_index.core.vector_stores.types import MetadataFilter, MetadataFilters, VectorStoreQuery
        from qdrant_client import QdrantClient

        client = QdrantClient(url=served.url, check_compatibility=False, timeout=60)
        try:
            store = llama.QdrantVectorStore("llama", client=client)
            nodes = [TextNode(text=t, embedding=embedded(t), metadata={"n": i}) for i, t in enumerate(TEXTS)]
            ids = store.add(nodes)
            found = store.query(VectorStoreQuery(query_embedding=embedded("a red apple"), similarity_top_k=2))
            assert [node.get_content() for node in found.nodes] == ["a red apple", "a green apple"]
            client.create_payload_index("llama", "n", field_schema="integer")
            filters = MetadataFilters(filters=[MetadataFilter(key="n", value=3)])
            query = VectorStoreQuery(query_embedding=embedded("apple"), similarity_top_k=2, filters=filters)
            assert [node.metadata["n"] for node in store.query(query).nodes] == [3]
            store.delete_nodes([ids[0]])
            assert client.count("llama").count == 5
        finally:
            client.close()
