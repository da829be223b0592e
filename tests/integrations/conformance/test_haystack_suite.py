"""Haystack's own tests of document stores (haystack.testing.document_store)."""

from __future__ import annotations

import pytest
from haystack.dataclasses import Document
from haystack.document_stores.errors import DuplicateDocumentError
from haystack.testing.document_store import DocumentStoreBaseExtendedTests

from interlace.integrations.haystack import InterlaceDocumentStore


class TestDocumentStore(DocumentStoreBaseExtendedTests):
    @pytest.fixture
    def document_store(self, tmp_path):
        store = InterlaceDocumentStore(tmp_path / "documents")
        yield store
        store.close()

    def test_write_documents(self, document_store):
        document = Document(content="test doc")
        assert document_store.write_documents([document]) == 1
        with pytest.raises(DuplicateDocumentError):
            document_store.write_documents([document])
