"""How many threads may share the work of a call; apart from what uses it, so that help imports nothing more."""

from __future__ import annotations

MOST_THREADS = 64  # POOL_MOST of runtime_c/ports/threads/pool.h
