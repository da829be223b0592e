"""LangChain's own tests of vector stores (langchain-tests)."""

from __future__ import annotations

import pytest
from langchain_tests.integration_tests import VectorStoreIntegrationTests

from interlace.integrations.langchain import InterlaceVectorStore


class TestInADirectory(VectorStoreIntegrationTests):
    @pytest.fixture
    def vectorstore(self, tmp_path):
        store = InterlaceVectorStore(self.get_embeddings(), path=tmp_path / "documents", metric="l2")
        yield store
        store.close()
