"""Description of the machine and the software of a result."""

from __future__ import annotations

import datetime
import os
import platform
import subprocess
from pathlib import Path
from typing import Any

import faiss
import numpy as np

import interlace
from interlace import _native

ROOT = Path(__file__).resolve().parent.parent
FLAGS = ("sse4_2", "avx", "avx2", "fma", "bmi2", "avx512f", "avx512bw", "avx512vl", "avx512dq", "avx512_vbmi", "asimd")


def environment() -> dict[str, Any]:
    """CPU, compiler, versions, commit, date: everything that results depend on, except data and protocol."""
    model, flags = _cpu()
    return {
        "cpu": model,
        "flags": [flag for flag in FLAGS if flag in flags],
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "load_at_start": round(os.getloadavg()[0], 2),  # other processes on the machine affect times
        "system": f"{platform.system()} {platform.machine()}",
        "compiler": _first_line("g++", "--version"),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "faiss": faiss.__version__,
        "faiss_options": faiss.get_compile_options().strip(),
        "interlace": interlace.__version__,
        "simd_levels": simd_levels(),
        "commit": _first_line("git", "-C", str(ROOT), "rev-parse", "HEAD"),
        # The benchmark's own results change while it runs; only code counts.
        "uncommitted_code": bool(
            _first_line("git", "-C", str(ROOT), "status", "--porcelain", "src", "cpp", "CMakeLists.txt")
        ),
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
    }


def simd_levels() -> list[str]:
    """Our SIMD levels on this CPU, slowest first, without emulated ones (test builds)."""
    return [level for level in _native.simd_levels() if not level.startswith("emulated")]


def _cpu() -> tuple[str, set[str]]:
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return platform.processor() or "unknown", set()
    fields = {}
    for line in text.splitlines():
        name, _, value = line.partition(":")
        fields.setdefault(name.strip(), value.strip())
    words = fields.get("flags", fields.get("Features", ""))
    return fields.get("model name", platform.machine()), set(words.split())


def _first_line(*command: str) -> str:
    try:
        out = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return ""
    return out.splitlines()[0] if out else ""


def load() -> float:
    """Load average of the last minute."""
    return os.getloadavg()[0]
