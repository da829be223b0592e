"""Wheels for aarch64 on an x86-64 machine: how they are compiled, and a Python of aarch64 under qemu that tries them.

The compiler is Debian's cross compiler. Headers of Python are those of the building Python: the sizes of types are the
same on both machines. Debian's Python for arm64 is unpacked into ``build/aarch64``; nothing is installed. It is one
version of Python, so that wheels for others are built and audited but not tried.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "build" / "aarch64"
COMPILER, EMULATOR = "aarch64-linux-gnu-g++", "qemu-aarch64"


def variables(name: str) -> dict[str, str]:
    """What a wheel of the Python ``name`` is tagged with, and what its library is called."""
    version = name.removeprefix("python").replace(".", "")
    found = {"_PYTHON_HOST_PLATFORM": "linux-aarch64"}
    if version in ("310", "311") or version.endswith("t"):  # the others have the stable ABI
        found["SETUPTOOLS_EXT_SUFFIX"] = f".cpython-{version}-aarch64-linux-gnu.so"
    return found


def settings() -> list[str]:
    """Settings of scikit-build-core for a cross build."""
    defined = {
        "CMAKE_SYSTEM_NAME": "Linux",
        "CMAKE_SYSTEM_PROCESSOR": "aarch64",
        "CMAKE_CXX_COMPILER": COMPILER,
        "CMAKE_CROSSCOMPILING_EMULATOR": "/usr/bin/env",  # Python itself is not emulated
        "CMAKE_SHARED_LINKER_FLAGS": "-s",
        "CMAKE_MODULE_LINKER_FLAGS": "-s",
    }
    return [part for name, value in defined.items() for part in ("-C", f"cmake.define.{name}={value}")]


def can_build() -> bool:
    """Whether there is a cross compiler; says so if not."""
    there = platform.machine() == "x86_64" and shutil.which(COMPILER) is not None
    if not there:
        print(f"no {COMPILER} here: no wheels for aarch64", file=sys.stderr)
    return there


def unpacked() -> Path | None:
    """The root of an unpacked Debian for arm64 with its Python; None if it cannot be had."""
    root = FOLDER / "root"
    if (root / "usr/bin").is_dir() and any((root / "usr/bin").glob("python3.*")):
        return root
    state = FOLDER / "apt"
    for name in ("lists/partial", "cache/archives/partial"):
        (state / name).mkdir(parents=True, exist_ok=True)
    (state / "status").touch()
    options = {
        "APT::Architecture": "arm64",
        "APT::Architectures": "arm64",
        "Dir::State": str(state),
        "Dir::State::lists": str(state / "lists"),
        "Dir::State::status": str(state / "status"),
        "Dir::Cache": str(state / "cache"),
        "Acquire::Languages": "none",
    }
    apt = ["apt-get", "-q", "-y", *(part for name, value in options.items() for part in ("-o", f"{name}={value}"))]
    install = [*apt, "install", "--download-only", "--no-install-recommends", "python3", "libstdc++6"]
    for command in ([*apt, "update"], install):
        ran = subprocess.run(command, capture_output=True, text=True)
        if ran.returncode:
            print(f"no Python of aarch64: {' '.join(command[-3:])}: {ran.stderr[-300:]}", file=sys.stderr)
            return None
    for package in sorted((state / "cache" / "archives").glob("*.deb")):
        subprocess.run(["dpkg", "-x", str(package), str(root)], check=True)
    if not (root / "lib").exists():  # a link that Debian makes when it is installed
        (root / "lib").symlink_to("usr/lib")
    return root


def tried(name: str, wheel: Path, trial: str) -> None:
    """Search with a wheel under qemu, where the Python of aarch64 is of the version ``name``; says so if it is not."""
    root = unpacked() if shutil.which(EMULATOR) else None
    python = None if root is None else root / "usr" / "bin" / name
    if root is None or python is None or not python.exists():
        print(f"no {name} of aarch64 under qemu here: {wheel.name} was not tried", file=sys.stderr)
        return
    site = FOLDER / f"site-{name}"
    shutil.rmtree(site, ignore_errors=True)
    version = name.removeprefix("python")
    plain = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "-q",
        "--disable-pip-version-check",
        "--no-deps",
        "--target",
        str(site),
    ]
    numbers = ("--only-binary", ":all:", "--python-version", version, "--platform", "manylinux_2_28_aarch64")
    older = ("--platform", "manylinux_2_17_aarch64", "--platform", "manylinux2014_aarch64")
    subprocess.run([*plain, *numbers, *older, "numpy"], check=True)
    shutil.unpack_archive(wheel, site, "zip")
    environment = os.environ | {"PYTHONPATH": str(site), "OPENBLAS_NUM_THREADS": "1", "PYTHONHOME": str(root / "usr")}
    subprocess.run([EMULATOR, "-L", str(root), str(python), "-c", trial], env=environment, check=True)
