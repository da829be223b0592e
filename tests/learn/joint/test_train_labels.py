"""Labels as class numbers."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="the train extra is not installed")
