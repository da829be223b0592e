"""Run the notebooks of docs/notebooks and store their outputs: ``make notebooks``.

    python scripts/notebooks.py [NAME ...]

Times and other facts of a run that differ from run to run are not stored.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "notebooks"
#: Of a whole file, in bytes: pictures are part of it.
MOST_BYTES = 300_000


def executed(path: Path) -> Any:
    """The notebook with the outputs of a new run in an empty directory; an error in a cell is raised."""
    import nbformat
    from nbclient import NotebookClient

    notebook = nbformat.read(path, as_version=4)
    with tempfile.TemporaryDirectory() as folder:
        NotebookClient(notebook, timeout=600, resources={"metadata": {"path": folder}}).execute()
    return tidied(notebook)


def tidied(notebook: Any) -> Any:
    """Without what differs from run to run, or tells of the machine."""
    notebook.metadata = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    for number, cell in enumerate(notebook.cells):
        cell.id, cell.metadata = f"cell-{number}", {}
        if cell.cell_type == "code":
            for output in cell.outputs:
                output.get("data", {}).pop("text/plain" if "image/png" in output.get("data", {}) else "", None)
                if output.output_type == "display_data":
                    output.metadata = {}
    return notebook


def main(argv: list[str] | None = None) -> int:
    """Run all notebooks, or those that are named; 1 if one has become too large."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="without .ipynb")
    options = parser.parse_args(argv)
    import nbformat

    large = 0
    for path in sorted(FOLDER.glob("*.ipynb")):
        if options.names and path.stem not in options.names:
            continue
        nbformat.write(executed(path), path)
        size = path.stat().st_size
        print(f"{path.name}: {size:,} bytes", flush=True)
        if size > MOST_BYTES:
            print(f"{path.name} is larger than {MOST_BYTES:,} bytes: draw less, or smaller", file=sys.stderr)
            large += 1
    return 1 if large else 0


if __name__ == "__main__":
    raise SystemExit(main())
