"""`InterlaceNodeStore`, a vector store of LlamaIndex. Needs llama-index-core."""

from __future__ import annotations

import asyncio
import operator
from collections.abc import Callable, Sequence
from os import PathLike, fspath
from typing import Any

from ..codec.metric import METRICS
from ..inputs.literals import Metric
from .documents import DocumentFolder, Json
from .frameworks import framework

with framework("llama-index-core", "0.14", extra="llama-index"):
    from llama_index.core.bridge.pydantic import PrivateAttr
    from llama_index.core.schema import BaseNode
    from llama_index.core.vector_stores.types import (
        BasePydanticVectorStore,
        FilterCondition,
        FilterOperator,
        MetadataFilters,
        VectorStoreQuery,
        VectorStoreQueryMode,
        VectorStoreQueryResult,
    )
    from llama_index.core.vector_stores.utils import metadata_dict_to_node, node_to_metadata_dict

_COMPARISONS: dict[Any, Callable[[Any, Any], bool]] = {
    FilterOperator.EQ: operator.eq,
    FilterOperator.NE: operator.ne,
    FilterOperator.GT: operator.gt,
    FilterOperator.GTE: operator.ge,
    FilterOperator.LT: operator.lt,
    FilterOperator.LTE: operator.le,
    FilterOperator.IN: lambda value, wanted: value in wanted,
    FilterOperator.NIN: lambda value, wanted: value not in wanted,
    FilterOperator.ANY: lambda value, wanted: any(item in value for item in wanted),
    FilterOperator.ALL: lambda value, wanted: all(item in value for item in wanted),
    FilterOperator.CONTAINS: lambda value, wanted: wanted in value,
    FilterOperator.TEXT_MATCH: lambda value, wanted: wanted in value,
    FilterOperator.TEXT_MATCH_INSENSITIVE: lambda value, wanted: wanted.lower() in value.lower(),
}


class InterlaceNodeStore(BasePydanticVectorStore):
    """Nodes and their vectors in the directory ``path``, which is kept; without it in a temporary one.

    Vectors are searched exactly until there are ten thousand; then the store learns codes of ``n_bytes`` bytes by
    itself. Every write is durable, so there is nothing to persist. Similarities are cosines, or 1 / (1 + squared
    distance) for ``metric="l2"``.
    """

    stores_text: bool = True
    path: str | None = None
    metric: str | None = None
    n_bytes: int | None = None
    _folder: DocumentFolder = PrivateAttr()

    def __init__(
        self, path: str | PathLike[str] | None = None, metric: Metric | None = None, n_bytes: int | None = None
    ) -> None:
        super().__init__(path=None if path is None else fspath(path), metric=metric, n_bytes=n_bytes)
        settings = {} if n_bytes is None else {"n_bytes": n_bytes}
        self._folder = DocumentFolder(path, metric=metric, settings=settings)
        self.metric = self._folder.metric

    @classmethod
    def class_name(cls) -> str:
        """The name in dictionaries."""
        return "InterlaceNodeStore"

    @property
    def client(self) -> Any:
        """The :class:`interlace.Store` of the vectors; None before the first one."""
        return self._folder.store

    def add(self, nodes: Sequence[BaseNode], **kwargs: Any) -> list[str]:
        """Add or replace nodes, which must have embeddings."""
        names = [node.node_id for node in nodes]
        vectors = [node.get_embedding() for node in nodes]  # ValueError if there is none
        data = [node_to_metadata_dict(node, remove_text=False, flat_metadata=False) for node in nodes]
        extra = [{"ref_doc_id": node.ref_doc_id, "metadata": node.metadata} for node in nodes]
        self._folder.write(names, [{"node": a} | b for a, b in zip(data, extra, strict=True)], vectors)
        return names

    def delete(self, ref_doc_id: str, **delete_kwargs: Any) -> None:
        """Delete all nodes of a document."""
        self._folder.delete([name for name, data, _ in self._folder.all() if data["ref_doc_id"] == ref_doc_id])

    def delete_nodes(
        self, node_ids: list[str] | None = None, filters: MetadataFilters | None = None, **delete_kwargs: Any
    ) -> None:
        """Delete the nodes that have one of these ids and match the filters."""
        self._folder.delete([node.node_id for node in self.get_nodes(node_ids, filters)])

    def get_nodes(self, node_ids: list[str] | None = None, filters: MetadataFilters | None = None) -> list[BaseNode]:
        """The nodes that have one of these ids and match the filters."""
        found = list(self._folder.all()) if node_ids is None else self._folder.get(node_ids)
        matches = _matcher(filters)
        return [_node(data) for _, data, _ in found if matches is None or matches(data["metadata"])]

    def clear(self) -> None:
        """Delete all nodes."""
        self._folder.delete([name for name, _, _ in self._folder.all()])

    def query(self, query: VectorStoreQuery, **kwargs: Any) -> VectorStoreQueryResult:
        """The nodes that are most similar to the embedding of a query, under its filters, node ids and document ids."""
        if query.mode != VectorStoreQueryMode.DEFAULT:
            raise ValueError(f"mode must be {VectorStoreQueryMode.DEFAULT.value!r}, got {query.mode!r}")
        if query.query_embedding is None:
            raise ValueError("a query needs query_embedding")
        # Retrievers pass empty lists for no restriction.
        matches, nodes, documents = _matcher(query.filters), query.node_ids or None, query.doc_ids or None

        def fits(name: str, data: Json) -> bool:
            return (
                (nodes is None or name in nodes)
                and (documents is None or data["ref_doc_id"] in documents)
                and (matches is None or matches(data["metadata"]))
            )

        limited = any(given is not None for given in (matches, nodes, documents))
        found = self._folder.search(query.query_embedding, query.similarity_top_k, fits if limited else None)
        return VectorStoreQueryResult(
            nodes=[_node(data) for _, data, _ in found],
            similarities=[METRICS[self._folder.metric].similarity(distance) for _, _, distance in found],
            ids=[name for name, _, _ in found],
        )

    async def async_add(self, nodes: Sequence[BaseNode], **kwargs: Any) -> list[str]:
        """:meth:`add` in a thread."""
        return await asyncio.to_thread(self.add, nodes)

    async def adelete(self, ref_doc_id: str, **delete_kwargs: Any) -> None:
        """:meth:`delete` in a thread."""
        await asyncio.to_thread(self.delete, ref_doc_id)

    async def aquery(self, query: VectorStoreQuery, **kwargs: Any) -> VectorStoreQueryResult:
        """:meth:`query` in a thread."""
        return await asyncio.to_thread(self.query, query)

    def persist(self, persist_path: str, fs: Any = None) -> None:
        """Nothing: every write is durable already. ValueError for a temporary store, which nothing can keep."""
        if self.path is None:
            raise ValueError("this store is temporary: InterlaceNodeStore(path) keeps its nodes in a directory")

    def close(self) -> None:
        """Close the files, so that another process can open them."""
        self._folder.close()


def _node(data: Json) -> BaseNode:
    return metadata_dict_to_node(data["node"])


def _matcher(filters: MetadataFilters | None) -> Callable[[Json], bool] | None:
    """A function of metadata; ValueError for operators that are not supported."""
    if filters is None or not filters.filters:
        return None
    parts = [_matcher(part) if isinstance(part, MetadataFilters) else _comparison(part) for part in filters.filters]
    tests = [part for part in parts if part is not None]
    if filters.condition in (None, FilterCondition.AND):
        return lambda metadata: all(test(metadata) for test in tests)
    if filters.condition == FilterCondition.OR:
        return lambda metadata: any(test(metadata) for test in tests)
    if filters.condition == FilterCondition.NOT:
        return lambda metadata: not any(test(metadata) for test in tests)
    raise ValueError(f"condition of filters must be and, or, not, got {filters.condition!r}")


def _comparison(part: Any) -> Callable[[Json], bool]:
    key, wanted, how = part.key, part.value, part.operator
    if how == FilterOperator.IS_EMPTY:
        return lambda metadata: metadata.get(key) in (None, [], "")
    if how not in _COMPARISONS:
        raise ValueError(f"{how!r} is no operator that this store supports: {', '.join(o.value for o in _COMPARISONS)}")
    compare = _COMPARISONS[how]

    def test(metadata: Json) -> bool:
        value = metadata.get(key)
        if value is None:
            return how in (FilterOperator.NE, FilterOperator.NIN)
        try:
            return bool(compare(value, wanted))
        except (TypeError, AttributeError) as error:
            raise ValueError(f"{how.value} cannot compare {value!r} of {key!r} with {wanted!r}") from error

    return test
