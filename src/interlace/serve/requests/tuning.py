"""What tunes the inside of Qdrant: checked as Qdrant checks it, without effect on answers here.

Fields without a range, and those of newer versions, are accepted as they are.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from .types import Natural, NonZero, Payload, Positive

Share = Annotated[float, Field(ge=0, le=1)]
#: ``quantization_config.product.compression``: bytes of float32 vectors per code byte.
COMPRESSIONS = {"x4": 4, "x8": 8, "x16": 16, "x32": 32, "x64": 64}


class Tuning(BaseModel):
    """Unknown keys are accepted."""

    model_config = ConfigDict(extra="allow", strict=True)


class Hnsw(Tuning):
    """hnsw_config"""

    m: Natural | None = None
    ef_construct: int | None = Field(default=None, ge=4)
    full_scan_threshold: int | None = Field(default=None, ge=10)
    max_indexing_threads: Natural | None = None
    on_disk: bool | None = None
    payload_m: Natural | None = None


class Optimizers(Tuning):
    """optimizers_config"""

    deleted_threshold: Share | None = None
    vacuum_min_vector_number: int | None = Field(default=None, ge=100)
    default_segment_number: Natural | None = None
    max_segment_size: Positive | None = None
    memmap_threshold: Natural | None = None
    indexing_threshold: Natural | None = None
    flush_interval_sec: Natural | None = None
    max_optimization_threads: Natural | Literal["auto"] | None = None


class Wal(Tuning):
    """wal_config"""

    wal_capacity_mb: Positive | None = None
    wal_segments_ahead: Natural | None = None


class Replication(Tuning):
    """params of a change of a collection"""

    replication_factor: NonZero | None = None
    write_consistency_factor: NonZero | None = None
    read_fan_out_factor: Natural | None = None
    on_disk_payload: bool | None = None


class StrictMode(Tuning):
    """strict_mode_config"""

    enabled: bool | None = None
    max_query_limit: Positive | None = None
    max_timeout: Positive | None = None
    read_rate_limit: Positive | None = None
    write_rate_limit: Positive | None = None
    max_points_count: Positive | None = None


class ScalarCodes(Tuning):
    """Codes of one byte for each dimension."""

    type: Literal["int8"]
    quantile: float | None = Field(default=None, ge=0.5, le=1)
    always_ram: bool | None = None


class ProductCodes(Tuning):
    """Codes of fewer bytes: the only ones that choose something here, the code bytes of a new collection."""

    compression: Literal["x4", "x8", "x16", "x32", "x64"]
    always_ram: bool | None = None


class QuantizationConfig(Tuning):
    """quantization_config"""

    scalar: ScalarCodes | None = None
    product: ProductCodes | None = None
    binary: Payload | None = None


class VectorTuning(Tuning):
    """vectors of a change of a collection"""

    hnsw_config: Hnsw | None = None
    quantization_config: QuantizationConfig | Literal["Disabled"] | None = None
    on_disk: bool | None = None


class Acorn(Tuning):
    """params.acorn of a query"""

    enable: bool | None = None
    max_selectivity: Share | None = None
