"""`InterlaceVectorStore`, a vector store of LangChain. Needs langchain-core."""

from __future__ import annotations

import math
import operator
import uuid
from collections.abc import Callable, Iterable, Sequence
from os import PathLike
from typing import Any

import numpy as np

from ..codec.metric import METRICS
from ..inputs.literals import Metric
from .documents import DocumentFolder, Json
from .frameworks import framework

with framework("langchain-core", "1.0", extra="langchain"):
    from langchain_core.documents import Document
    from langchain_core.embeddings import Embeddings
    from langchain_core.vectorstores import VectorStore
    from langchain_core.vectorstores.utils import maximal_marginal_relevance

#: A dict of metadata, or a function of a document.
Filter = dict[str, Any] | Callable[[Document], bool]

_COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "$eq": operator.eq,
    "$ne": operator.ne,
    "$gt": operator.gt,
    "$gte": operator.ge,
    "$lt": operator.lt,
    "$lte": operator.le,
    "$in": lambda value, wanted: value in wanted,
    "$nin": lambda value, wanted: value not in wanted,
}
_LOGIC = ("$and", "$or", "$not")


class InterlaceVectorStore(VectorStore):
    """Documents and their vectors in the directory ``path``, which is kept; without it in a temporary one.

    Vectors are searched exactly until there are ten thousand; then the store learns codes of ``n_bytes`` bytes by
    itself. Scores are similarities: cosines, or 1 / (1 + squared distance) for ``metric="l2"``.

    ``filter`` is a function of a document, or a dict: ``{"kind": "news", "year": {"$gte": 2020}}``, with ``$eq``,
    ``$ne``, ``$gt``, ``$gte``, ``$lt``, ``$lte``, ``$in``, ``$nin``, ``$and``, ``$or`` and ``$not``. Filters look at
    every document; for millions of rows declare columns in a :class:`interlace.Store` instead.
    """

    def __init__(
        self,
        embedding: Embeddings,
        *,
        path: str | PathLike[str] | None = None,
        metric: Metric | None = None,
        n_bytes: int | None = None,
    ) -> None:
        settings = {} if n_bytes is None else {"n_bytes": n_bytes}
        self._embedding, self._folder = embedding, DocumentFolder(path, metric=metric, settings=settings)

    @property
    def embeddings(self) -> Embeddings:
        """What makes vectors of texts."""
        return self._embedding

    def add_documents(self, documents: list[Document], ids: list[str] | None = None, **kwargs: Any) -> list[str]:
        """Add or replace documents. The id is that of ``ids``, of the document, or a new one."""
        if ids is not None and len(ids) != len(documents):
            raise ValueError(f"ids must be one for each of {len(documents)} documents, got {len(ids)}")
        given = ids if ids is not None else [document.id for document in documents]
        names = [str(uuid.uuid4()) if name is None else name for name in given]
        vectors = self._embedding.embed_documents([document.page_content for document in documents])
        if any(vector is None for vector in vectors):
            raise ValueError("the embedding must give a vector for each document, got None")
        data = [{"text": document.page_content, "metadata": document.metadata} for document in documents]
        self._folder.write(names, data, vectors)
        return names

    def delete(self, ids: list[str] | None = None, **kwargs: Any) -> bool | None:
        """Delete documents by id, or all of them; ids that are not there are ignored."""
        self._folder.delete([document for document, _, _ in self._folder.all()] if ids is None else ids)
        return True

    def get_by_ids(self, ids: Sequence[str], /) -> list[Document]:
        """Documents by id, without those that are not there."""
        return [_document(name, data) for name, data, _ in self._folder.get(list(ids))]

    def similarity_search(self, query: str, k: int = 4, filter: Filter | None = None, **kwargs: Any) -> list[Document]:
        """The k documents that are most similar to a text."""
        return [document for document, _ in self.similarity_search_with_score(query, k, filter)]

    def similarity_search_with_score(
        self, query: str, k: int = 4, filter: Filter | None = None, **kwargs: Any
    ) -> list[tuple[Document, float]]:
        """The same with their scores, of which larger is better."""
        return self.similarity_search_with_score_by_vector(self._embedding.embed_query(query), k, filter)

    def similarity_search_by_vector(
        self, embedding: list[float], k: int = 4, filter: Filter | None = None, **kwargs: Any
    ) -> list[Document]:
        """The k documents whose vectors are most similar."""
        return [document for document, _ in self.similarity_search_with_score_by_vector(embedding, k, filter)]

    def similarity_search_with_score_by_vector(
        self, embedding: list[float], k: int = 4, filter: Filter | None = None
    ) -> list[tuple[Document, float]]:
        """The same with their scores."""
        found, metric = self._folder.search(embedding, k, _matcher(filter)), METRICS[self._folder.metric]
        return [(_document(name, data), metric.similarity(distance)) for name, data, distance in found]

    def max_marginal_relevance_search(
        self,
        query: str,
        k: int = 4,
        fetch_k: int = 20,
        lambda_mult: float = 0.5,
        filter: Filter | None = None,
        **kwargs: Any,
    ) -> list[Document]:
        """k documents that are similar to a text and different from each other."""
        vector = self._embedding.embed_query(query)
        return self.max_marginal_relevance_search_by_vector(vector, k, fetch_k, lambda_mult, filter)

    def max_marginal_relevance_search_by_vector(
        self,
        embedding: list[float],
        k: int = 4,
        fetch_k: int = 20,
        lambda_mult: float = 0.5,
        filter: Filter | None = None,
        **kwargs: Any,
    ) -> list[Document]:
        """The same for a vector."""
        found = self._folder.search(embedding, fetch_k, _matcher(filter))
        if not found:
            return []
        vectors = self._folder.vectors([name for name, _, _ in found])
        chosen = maximal_marginal_relevance(
            np.asarray(embedding, np.float32), list(vectors), k=k, lambda_mult=lambda_mult
        )
        return [_document(*found[i][:2]) for i in chosen]

    def _select_relevance_score_fn(self) -> Callable[[float], float]:
        if not METRICS[self._folder.metric].is_distance:  # products have no bounds
            return lambda score: 1.0 / (1.0 + math.exp(-min(max(score, -700.0), 700.0)))
        return lambda score: min(1.0, max(0.0, score))

    @classmethod
    def from_texts(
        cls,
        texts: list[str],
        embedding: Embeddings,
        metadatas: list[dict[str, Any]] | None = None,
        *,
        ids: list[str] | None = None,
        path: str | PathLike[str] | None = None,
        metric: Metric | None = None,
        n_bytes: int | None = None,
        **kwargs: Any,
    ) -> InterlaceVectorStore:
        """A store with these texts."""
        store = cls(embedding, path=path, metric=metric, n_bytes=n_bytes)
        store.add_texts(texts, metadatas, ids=ids)
        return store

    def close(self) -> None:
        """Close the files, so that another process can open them."""
        self._folder.close()


def _document(name: str, data: Json) -> Document:
    return Document(id=name, page_content=data["text"], metadata=data["metadata"])


def _matcher(given: Filter | None) -> Callable[[str, Json], bool] | None:
    if given is None:
        return None
    if isinstance(given, dict):
        _check(given)
        return lambda name, data: _matches(given, data["metadata"])
    if callable(given):
        return lambda name, data: bool(given(_document(name, data)))
    raise ValueError(f"filter must be a dict or a function of a document, got {type(given).__name__}")


def _check(given: Any) -> None:
    """ValueError for operators that do not exist, before any document is read."""
    if not isinstance(given, dict):
        raise ValueError(f"a filter must be a dict, got {given!r}")
    for key, wanted in given.items():
        if key in _LOGIC:
            for part in [wanted] if key == "$not" else _parts(key, wanted):
                _check(part)
        elif key.startswith("$"):
            raise ValueError(f"{key!r} is no operator of filters: {', '.join(_LOGIC)}")
        elif isinstance(wanted, dict):
            for name, value in wanted.items():
                if name not in _COMPARISONS:
                    raise ValueError(f"{name!r} is no comparison of filters: {', '.join(_COMPARISONS)}")
                if name in ("$in", "$nin") and not isinstance(value, list | tuple | set):
                    raise ValueError(f"{name} of {key!r} needs a list, got {value!r}")


def _parts(key: str, wanted: Any) -> Iterable[Any]:
    if not isinstance(wanted, list | tuple):
        raise ValueError(f"{key} needs a list of filters, got {wanted!r}")
    return wanted


def _matches(given: dict[str, Any], metadata: Json) -> bool:
    for key, wanted in given.items():
        if key == "$and":
            fits = all(_matches(part, metadata) for part in wanted)
        elif key == "$or":
            fits = any(_matches(part, metadata) for part in wanted)
        elif key == "$not":
            fits = not _matches(wanted, metadata)
        else:
            value = metadata.get(key)
            compared = wanted if isinstance(wanted, dict) else {"$eq": wanted}
            fits = all(_compared(name, value, other) for name, other in compared.items())
        if not fits:
            return False
    return True


def _compared(name: str, value: Any, other: Any) -> bool:
    if value is None and name in ("$gt", "$gte", "$lt", "$lte"):
        return False  # a document without the field has no order
    try:
        return bool(_COMPARISONS[name](value, other))
    except TypeError as error:
        raise ValueError(f"{name} cannot compare {value!r} with {other!r}") from error
