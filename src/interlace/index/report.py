"""Where the bytes of an index are."""

from __future__ import annotations

from dataclasses import dataclass

from .searcher import Searcher


@dataclass(frozen=True)
class Report:
    """Bytes by part. ``code_bytes_per_vector`` counts code columns, padding and row numbers; ``bytes_per_vector``
    originals too."""

    rows: int
    n_bytes: int  #: code bytes asked for; bytes of a vector, where a store has not learned codes yet
    codes: int  #: code columns, padding included; with the vectors that stand in for codes
    row_numbers: int  #: which row stands where, and the bounds of the cells
    ids: int  #: explicit ids and their sorted section; 0 for default ids
    learned: int  #: words, rotation, mean
    tables: int  #: what the native core precomputes for searches
    file: int | None  #: size of the file, for an index opened from one
    embedding: int = 0  #: weights of the embedding; those of a user's module, which no file holds, are not counted
    embedding_kind: str | None = None  #: linear, mlp, lenet, ...
    originals: int = 0  #: vectors kept beside their codes
    originals_kind: str | None = None  #: float16 or int8

    @classmethod
    def of(cls, searcher: Searcher, file: int | None) -> Report:
        """Measure the rows of an index or of a snapshot; ``file`` is the size of its files."""
        space, segments, ids = searcher.space, searcher.engine.segments, searcher.ids
        codebooks, embedding = space.codebooks, space.embedding
        codes, n_bytes, originals = sum(s.code_bytes for s in segments), codebooks.n_bytes, searcher.originals
        if (vectors := searcher.engine.vectors) is not None:  # which stand in for codes
            codes, n_bytes, originals = codes + vectors.n_bytes, vectors.format.width, None
        return cls(
            rows=ids.n_kept,
            n_bytes=n_bytes,
            codes=codes,
            row_numbers=sum(s.row_bytes for s in segments),
            ids=sum(a.nbytes for a in ids.arrays.values()),
            learned=sum(a.nbytes for a in codebooks.to_arrays()[0].values()),
            tables=codebooks.native.table_bytes
            + sum(s.fixed_bytes(codebooks, reranked=originals is not None) for s in segments),
            file=file,
            embedding=0 if embedding is None else embedding.n_bytes,
            embedding_kind=None if embedding is None else embedding.label,
            originals=0 if originals is None else originals.n_bytes,
            originals_kind=None if originals is None else originals.format.kind,
        )

    @property
    def code_bytes_per_vector(self) -> float:
        """What the code of one more vector costs, ids aside."""
        return (self.codes + self.row_numbers) / max(1, self.rows)

    @property
    def bytes_per_vector(self) -> float:
        """What one more vector costs, ids aside, with its original where originals are kept."""
        return (self.codes + self.row_numbers + self.originals) / max(1, self.rows)

    @property
    def total(self) -> int:
        """All of it."""
        stored = self.codes + self.row_numbers + self.ids + self.learned + self.embedding + self.originals
        return stored + self.tables

    def __str__(self) -> str:
        parts = [
            ("codes", self.codes),
            ("row numbers", self.row_numbers),
            ("ids", self.ids),
            ("learned arrays", self.learned),
            *([] if self.embedding_kind is None else [("embedding", self.embedding)]),
            *([] if self.originals_kind is None else [("originals", self.originals)]),
            ("stored", self.total - self.tables),
            ("tables in memory", self.tables),
        ]
        lines = [f"{self.rows} rows, {self.code_bytes_per_vector:.2f} code bytes per vector (n_bytes={self.n_bytes})"]
        lines[0] += "" if self.originals_kind is None else f", {self.bytes_per_vector:.2f} with originals"
        kind = {"embedding": f" ({self.embedding_kind})", "originals": f" ({self.originals_kind})"}
        lines += [f"  {name:<17}{size:>14,} bytes{kind.get(name, '')}" for name, size in parts]
        if self.file is not None:
            lines.append(f"  {'file':<17}{self.file:>14,} bytes")
        return "\n".join(lines)
