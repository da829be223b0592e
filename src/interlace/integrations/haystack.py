"""`InterlaceDocumentStore` and `InterlaceEmbeddingRetriever` for Haystack. Needs haystack-ai."""

from __future__ import annotations

import asyncio
from collections import Counter
from os import PathLike, fspath
from typing import Any

from ..codec.metric import METRICS
from ..errors import InputError, InterlaceError
from ..inputs.literals import Metric
from .documents import DocumentFolder, Json
from .frameworks import framework

with framework("haystack-ai", "2.20", extra="haystack"):
    from haystack import component, default_from_dict, default_to_dict
    from haystack.dataclasses import Document
    from haystack.document_stores.errors import DocumentStoreError, DuplicateDocumentError
    from haystack.document_stores.types import DuplicatePolicy
    from haystack.errors import FilterError
    from haystack.utils.filters import document_matches_filter


class InterlaceDocumentStore:
    """Documents, with or without embeddings, in the directory ``path``, which is kept; without it in a temporary one.

    Embeddings are searched exactly until there are ten thousand; then the store learns codes of ``n_bytes`` bytes by
    itself. With ``keep_embeddings`` documents come back with their exact embeddings, at eight bytes a value;
    without, documents that are read have none. Filters look at every document.
    """

    def __init__(
        self,
        path: str | PathLike[str] | None = None,
        metric: Metric | None = None,
        n_bytes: int | None = None,
        keep_embeddings: bool = True,
    ) -> None:
        self.path = None if path is None else fspath(path)
        self.n_bytes, self.keep_embeddings = n_bytes, keep_embeddings
        settings = {} if n_bytes is None else {"n_bytes": n_bytes}
        try:
            self._folder = DocumentFolder(path, metric=metric, exact=keep_embeddings, settings=settings)
        except InterlaceError as error:
            raise DocumentStoreError(str(error)) from error
        self.metric = self._folder.metric

    def to_dict(self) -> dict[str, Any]:
        """The parameters; the documents stay in the directory."""
        return dict(
            default_to_dict(
                self,
                path=self.path,
                metric=self.metric,
                n_bytes=self.n_bytes,
                keep_embeddings=self.keep_embeddings,
            )
        )

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> InterlaceDocumentStore:
        """Inverse of :meth:`to_dict`."""
        found: InterlaceDocumentStore = default_from_dict(cls, data)
        return found

    def count_documents(self) -> int:
        """The number of documents."""
        return len(self._folder)

    def filter_documents(self, filters: dict[str, Any] | None = None) -> list[Document]:
        """Documents that match Haystack's filters; FilterError for invalid ones."""
        _check(filters)
        documents = (_document(data, vector) for _, data, vector in self._folder.all())
        return [document for document in documents if not filters or document_matches_filter(filters, document)]

    def write_documents(self, documents: list[Document], policy: DuplicatePolicy = DuplicatePolicy.NONE) -> int:
        """Write documents; returns how many. The default policy is to fail for ids that exist."""
        if not isinstance(documents, list) or not all(isinstance(each, Document) for each in documents):
            raise ValueError("documents must be a list of haystack Documents")
        ids = [document.id for document in documents]
        known = self._folder.known(ids)
        if policy in (DuplicatePolicy.NONE, DuplicatePolicy.FAIL):
            twice = known or {name for name, times in Counter(ids).items() if times > 1}
            if twice:
                raise DuplicateDocumentError(f"id {min(twice)!r} exists already ({len(twice)} of {len(ids)} ids do)")
        elif policy == DuplicatePolicy.SKIP:
            first = {name: place for place, name in reversed(list(enumerate(ids)))}
            documents = [each for i, each in enumerate(documents) if each.id not in known and first[each.id] == i]
        try:
            self._folder.write(
                [document.id for document in documents],
                [_data(document) for document in documents],
                [document.embedding for document in documents],
            )
        except InputError as error:  # other dimensions, metadata that JSON cannot hold
            raise DocumentStoreError(str(error)) from error
        return len(documents)

    def delete_documents(self, document_ids: list[str]) -> None:
        """Delete documents; ids that do not exist are ignored."""
        self._folder.delete(document_ids)

    def delete_all_documents(self) -> None:
        """Delete all documents."""
        self._folder.delete([name for name, _, _ in self._folder.all()])

    def delete_by_filter(self, filters: dict[str, Any]) -> int:
        """Delete the documents that match; returns how many."""
        return self._folder.delete([document.id for document in self.filter_documents(filters)])

    def update_by_filter(self, filters: dict[str, Any], meta: dict[str, Any]) -> int:
        """Set values of the metadata of the documents that match; returns how many."""
        found = self.filter_documents(filters)
        for document in found:
            document.meta.update(meta)
        try:
            self._folder.replace([document.id for document in found], [_data(document) for document in found])
        except InputError as error:  # metadata that JSON cannot hold
            raise DocumentStoreError(str(error)) from error
        return len(found)

    def embedding_retrieval(
        self, query_embedding: list[float], *, filters: dict[str, Any] | None = None, top_k: int = 10
    ) -> list[Document]:
        """The documents whose embeddings are most similar, with their scores; those without embedding are not found."""
        _check(filters)
        if not query_embedding:
            raise ValueError("query_embedding must be a list of numbers that is not empty")

        def matches(name: str, data: Json) -> bool:
            return bool(document_matches_filter(filters or {}, _document(data, None)))

        try:
            found = self._folder.search(query_embedding, top_k, matches if filters else None)
        except InputError as error:
            raise DocumentStoreError(str(error)) from error
        exact = {name: vector for name, _, vector in self._folder.get([name for name, _, _ in found])}
        return [
            _document(data | {"score": METRICS[self._folder.metric].similarity(distance)}, exact.get(name))
            for name, data, distance in found
        ]

    async def count_documents_async(self) -> int:
        """:meth:`count_documents` in a thread."""
        return await asyncio.to_thread(self.count_documents)

    async def filter_documents_async(self, filters: dict[str, Any] | None = None) -> list[Document]:
        """:meth:`filter_documents` in a thread."""
        return await asyncio.to_thread(self.filter_documents, filters)

    async def write_documents_async(
        self, documents: list[Document], policy: DuplicatePolicy = DuplicatePolicy.NONE
    ) -> int:
        """:meth:`write_documents` in a thread."""
        return await asyncio.to_thread(self.write_documents, documents, policy)

    async def delete_documents_async(self, document_ids: list[str]) -> None:
        """:meth:`delete_documents` in a thread."""
        await asyncio.to_thread(self.delete_documents, document_ids)

    def close(self) -> None:
        """Close the files, so that another process can open them."""
        self._folder.close()


@component
class InterlaceEmbeddingRetriever:
    """Retrieves documents of an :class:`InterlaceDocumentStore` by the embedding of a query."""

    def __init__(
        self, document_store: InterlaceDocumentStore, *, filters: dict[str, Any] | None = None, top_k: int = 10
    ) -> None:
        if not isinstance(document_store, InterlaceDocumentStore):
            raise ValueError(f"document_store must be an InterlaceDocumentStore, got {type(document_store).__name__}")
        self.document_store, self.filters, self.top_k = document_store, filters, top_k

    @component.output_types(documents=list[Document])
    def run(
        self, query_embedding: list[float], filters: dict[str, Any] | None = None, top_k: int | None = None
    ) -> dict[str, list[Document]]:
        """The documents that are most similar."""
        found = self.document_store.embedding_retrieval(
            query_embedding, filters=filters or self.filters, top_k=top_k or self.top_k
        )
        return {"documents": found}

    def to_dict(self) -> dict[str, Any]:
        """The parameters."""
        store = self.document_store.to_dict()
        return dict(default_to_dict(self, document_store=store, filters=self.filters, top_k=self.top_k))

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> InterlaceEmbeddingRetriever:
        """Inverse of :meth:`to_dict`."""
        parameters = data["init_parameters"]
        parameters["document_store"] = InterlaceDocumentStore.from_dict(parameters["document_store"])
        found: InterlaceEmbeddingRetriever = default_from_dict(cls, data)
        return found


def _check(filters: Any) -> None:
    if filters and not isinstance(filters, dict):
        raise FilterError(f"filters must be a dict, got {type(filters).__name__}")
    if filters and "operator" not in filters and "conditions" not in filters:
        raise FilterError(f"filters need an operator, got {filters!r}")


def _data(document: Document) -> Json:
    data = dict(document.to_dict(flatten=False))
    data.pop("embedding", None)
    data.pop("score", None)
    return data


def _document(data: Json, vector: Any) -> Document:
    found: Document = Document.from_dict(data | {"embedding": None if vector is None else vector.tolist()})
    return found
