"""Updatable stores: crash-safe directories that you can add to and delete from (docs/store.md).

store.py        calls that write: add, upsert, remove, batch, compact, calibrate, relearn
reading.py      calls that read: get, payload, health, report, evaluate, verify; searches are those of an index
creating.py, opening.py    create and open
backups.py      copies of a store elsewhere, and back
session.py      a store that a process has open: current state, one write at a time, batches
adding.py       rows of the user -> records
relearning.py   new codebooks from kept originals
restructuring.py    other columns for the rows of a store
learning_plan.py    how a store that starts without codebooks learns some
writer.py       how a write reaches the disk: log, checkpoint
compaction.py   which segments a checkpoint rewrites
loading.py      files -> state
verifying.py    check of all files
snapshot.py     one state: what a search uses
rows.py         rows of a state: segments and log, columns, originals
tail.py, ids.py          rows of the log in memory; ids of many segments
manifest.py, log.py, records.py, parts.py    the files
files.py, lock.py        file operations; one writer across processes
columns.py, arrow_ipc.py, extras.py    what rows have in addition to ids and codes
filters.py, filter_text.py, filter_size.py, filter_cache.py    filters over columns
drift.py, health.py      errors of added rows; the state of a store and what to do
"""

from .compaction import Limits
from .creating import create
from .health import Health
from .opening import open, restore
from .snapshot import Snapshot
from .store import Store
from .verifying import Verified, verify

__all__ = ["Health", "Limits", "Snapshot", "Store", "Verified", "create", "open", "restore", "verify"]
