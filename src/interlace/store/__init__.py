"""An index that lives in a directory (docs/store.md).

store.py       what users call to write: add, upsert, remove, batch, compact, calibrate, relearn
reading.py     what they call to read: search, get, payload, health, report, verify
opening.py     create and open
writer.py      how a write gets to the disk: log, checkpoint
snapshot.py    what a search sees: segments, rows of the log, removed rows
loading.py     from files to a snapshot
manifest.py, log.py, parts.py    the files
tail.py, ids.py                  rows of the log in memory; ids of many segments
columns.py, originals.py, extras.py    what a row may have beside its id and code
sound.py       Arrow data of files, checked before it is used
filters.py     expressions over columns
reranking.py, recall.py          a second look at the best rows; how deep it must go
relearning.py  new books from kept originals
compaction.py  which segments are written anew
drift.py, health.py              errors of rows as they come; what should be done
lock.py        one writer across processes
files.py       the one door to the disk
verifying.py   everything on disk, read and compared
"""

from .compaction import Limits
from .health import Health
from .opening import create, open
from .snapshot import Snapshot
from .store import Store
from .verifying import Verified, verify

__all__ = ["Health", "Limits", "Snapshot", "Store", "Verified", "create", "open", "verify"]
