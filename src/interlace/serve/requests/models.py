"""Bodies of requests, as Qdrant's REST API has them. What this server does not support is named in the answer."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag, model_validator

from .tuning import (
    Acorn,
    Hnsw,
    Optimizers,
    QuantizationConfig,
    Replication,
    StrictMode,
    VectorTuning,
    Wal,
)
from .types import (
    MOST_BYTES,
    Factor,
    Ignored,
    Natural,
    NewName,
    NonZero,
    Path,
    Payload,
    PointId,
    Positive,
    Unsupported,
    Vector,
    VectorInput,
)


class Body(BaseModel):
    """Unknown keys are refused, and values of other types."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=True)


class VectorParams(Body):
    """Dimensions and distance of the vectors of a collection."""

    size: int = Field(gt=0, le=65_536)
    distance: str
    hnsw_config: Hnsw | None = None
    quantization_config: QuantizationConfig | None = None
    on_disk: bool | None = None
    memory: Ignored = None
    datatype: str | None = None
    multivector_config: Unsupported = None


def _form_of_vectors(given: Any) -> str:
    return "one" if isinstance(given, dict) and given.keys() & {"size", "distance"} else "named"


#: One vector, or vectors with names, of which only the empty one is known.
VectorsConfig = Annotated[
    Annotated[VectorParams, Tag("one")] | Annotated[dict[str, VectorParams], Tag("named")],
    Discriminator(_form_of_vectors),
]


class Own(Body):
    """What only this server has: sizes of codes and originals of a new collection."""

    n_bytes: int | None = Field(default=None, ge=1, le=MOST_BYTES)
    originals: str | None = "float16"
    learn_at: Positive | None = None  #: points at which codes are learned
    columns: dict[str, str] | None = None  #: typed columns in place of a JSON payload


class CreateCollection(Body):
    """PUT /collections/{name}"""

    vectors: VectorsConfig
    interlace: Own = Own()
    hnsw_config: Hnsw | None = None
    wal_config: Wal | None = None
    optimizers_config: Optimizers | None = None
    quantization_config: QuantizationConfig | None = None
    on_disk_payload: bool | None = None
    payload: Ignored = None
    id_tracker: Ignored = None
    shard_number: NonZero | None = Field(default=None, le=1)
    replication_factor: NonZero | None = Field(default=None, le=1)
    write_consistency_factor: NonZero | None = None
    strict_mode_config: StrictMode | None = None
    sharding_method: Unsupported = None
    sparse_vectors: Unsupported = None
    init_from: Unsupported = None
    metadata: Unsupported = None


class UpdateCollection(Body):
    """PATCH /collections/{name}: tuning of Qdrant's inside, without effect here."""

    optimizers_config: Optimizers | None = None
    params: Replication | None = None
    hnsw_config: Hnsw | None = None
    vectors: dict[str, VectorTuning] | None = None
    quantization_config: QuantizationConfig | Literal["Disabled"] | None = None
    strict_mode_config: StrictMode | None = None
    sparse_vectors: Unsupported = None
    metadata: Unsupported = None


class CreateAlias(Body):
    """A new alias, or another collection for one that is there."""

    collection_name: str
    alias_name: NewName


class DeleteAlias(Body):
    """An alias to delete."""

    alias_name: str


class RenameAlias(Body):
    """Another name for an alias."""

    old_alias_name: str
    new_alias_name: NewName


class OneOf(Body):
    """A change of one of several kinds: exactly one field is set."""

    what: ClassVar[str]  #: for the message

    @property
    def name(self) -> str:
        """Which of them it is."""
        return next(name for name in type(self).model_fields if getattr(self, name) is not None)

    @model_validator(mode="after")
    def _has_one(self) -> OneOf:
        names = [name for name, field in type(self).model_fields.items() if field.annotation is not type(None)]
        if sum(getattr(self, name) is not None for name in names) != 1:
            raise ValueError(f"{self.what} must have exactly one of {', '.join(names)}")
        return self


class AliasAction(OneOf):
    """One of these."""

    what = "an action"

    create_alias: CreateAlias | None = None
    delete_alias: DeleteAlias | None = None
    rename_alias: RenameAlias | None = None


class ChangeAliases(Body):
    """POST /collections/aliases: actions that are made in one step."""

    actions: list[AliasAction]


class CreateIndex(Body):
    """PUT /collections/{name}/index"""

    field_name: str = Field(min_length=1, max_length=512)
    field_schema: str | Payload | None = None


class Point(Body):
    """One point."""

    id: PointId
    vector: VectorInput
    payload: Payload | None = None


class Batch(Body):
    """Many points by column."""

    ids: list[PointId]
    vectors: list[Vector] | dict[str, list[Vector]]
    payloads: list[Payload | None] | None = None


class Upsert(Body):
    """PUT /collections/{name}/points: one of points and batch."""

    points: list[Point] | None = None
    batch: Batch | None = None
    shard_key: Unsupported = None
    update_filter: Unsupported = None
    update_mode: str | None = None


class Selector(Body):
    """POST /collections/{name}/points/delete: one of points and filter."""

    points: list[PointId] | None = None
    filter: Payload | None = None
    shard_key: Unsupported = None


class SetPayload(Selector):
    """POST and PUT /collections/{name}/points/payload"""

    payload: Payload
    key: Path | None = None  #: path of the objects whose keys are set


class DeletePayload(Selector):
    """POST /collections/{name}/points/payload/delete"""

    keys: list[Path]


class PointVectors(Body):
    """The new vector of a point."""

    id: PointId
    vector: VectorInput


class UpdateVectors(Body):
    """PUT /collections/{name}/points/vectors"""

    points: list[PointVectors] = Field(min_length=1)
    shard_key: Unsupported = None
    update_filter: Unsupported = None


class Operation(OneOf):
    """One change of a batch of them; it has exactly one of these."""

    what = "an operation"

    upsert: Upsert | None = None
    delete: Selector | None = None
    set_payload: SetPayload | None = None
    overwrite_payload: SetPayload | None = None
    delete_payload: DeletePayload | None = None
    clear_payload: Selector | None = None
    update_vectors: UpdateVectors | None = None
    delete_vectors: Unsupported = None


class Operations(Body):
    """POST /collections/{name}/points/batch: changes that are made one after the other."""

    operations: list[Operation]


class Select(Body):
    """Keys of a payload."""

    include: list[Path] | None = None
    exclude: list[Path] | None = None


WithPayload = bool | list[Path] | Select | None
WithVector = bool | list[str] | None


class Retrieve(Body):
    """POST /collections/{name}/points"""

    ids: list[PointId]
    with_payload: WithPayload = None
    with_vector: WithVector = None
    shard_key: Unsupported = None


class OrderBy(Body):
    """Order of a scroll."""

    key: str
    direction: Literal["asc", "desc"] | None = None
    start_from: int | float | str | None = None


class Scroll(Body):
    """POST /collections/{name}/points/scroll"""

    offset: PointId | None = None
    limit: Positive | None = None
    filter: Payload | None = None
    with_payload: WithPayload = None
    with_vector: WithVector = None
    order_by: str | OrderBy | None = None
    shard_key: Unsupported = None


class Facet(Body):
    """POST /collections/{name}/facet; the numbers are always exact."""

    key: str
    limit: Positive | None = None
    filter: Payload | None = None
    exact: bool | None = None
    shard_key: Unsupported = None


class Count(Body):
    """POST /collections/{name}/points/count; the answer is always exact."""

    filter: Payload | None = None
    exact: bool | None = None
    shard_key: Unsupported = None


class Quantization(Body):
    """Re-ranking, as Qdrant names it."""

    ignore: bool | None = None
    rescore: bool | None = None
    oversampling: Factor | None = None


class SearchParams(Body):
    """How to search. margin, recall and rerank are ours (docs/searching.md)."""

    exact: bool | None = None
    quantization: Quantization | None = None
    hnsw_ef: Positive | None = None
    indexed_only: bool | None = None
    acorn: Acorn | None = None
    idf: Unsupported = None
    margin: float | str | None = None
    recall: float | None = None
    rerank: Natural | None = None


class Mmr(Body):
    """Hits that are unlike each other: ``{"nearest": ..., "mmr": {"diversity": 0.5}}``."""

    diversity: float | None = Field(default=None, ge=0, le=1)
    candidates_limit: Positive | None = None


class Recommend(Body):
    """Points like some and unlike others: ``{"recommend": {"positive": [...], "negative": [...]}}``."""

    positive: list[PointId | Vector] = Field(min_length=1)
    negative: list[PointId | Vector] | None = None
    strategy: Literal["average_vector"] | None = None


class SearchBody(Body):
    """What all queries have."""

    query: PointId | Vector | Payload | None = None
    limit: Positive | None = None
    filter: Payload | None = None
    params: SearchParams | None = None
    score_threshold: float | None = None
    with_payload: WithPayload = None
    with_vector: WithVector = None
    using: str | None = None
    prefetch: Unsupported = None
    lookup_from: Unsupported = None
    shard_key: Unsupported = None


class Query(SearchBody):
    """POST /collections/{name}/points/query"""

    offset: Natural | None = None
    with_stats: bool = False


class QueryGroups(SearchBody):
    """POST /collections/{name}/points/query/groups; ``limit`` is that of groups."""

    offset: ClassVar[None] = None
    group_by: str
    group_size: Positive | None = None
    with_lookup: Unsupported = None


class Queries(Body):
    """POST /collections/{name}/points/query/batch"""

    searches: list[Query]


class Explain(Body):
    """POST /collections/{name}/points/explain: what a query does with one point."""

    offset: ClassVar[None] = None
    query: Vector | PointId | Payload
    id: PointId
    limit: Positive | None = None
    filter: Payload | None = None
    params: SearchParams | None = None
