"""The persistent compilation cache: the second start of a run does not compile again."""

from __future__ import annotations

import os
import pathlib

import jax

VARIABLE = "JAX_COMPILATION_CACHE_DIR"


def default_path() -> pathlib.Path:
  """Where the user's caches lie: `$XDG_CACHE_HOME` or `~/.cache`."""
  base = os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache"
  return pathlib.Path(base) / "jaxrl_reason" / "jax"


def enable_compilation_cache(path: str | os.PathLike | None = None) -> pathlib.Path | None:
  """Keeps every compiled program on disk, however quickly it compiled. Returns the folder.

  The folder is `path`, else `$JAX_COMPILATION_CACHE_DIR`, else `default_path()`. An empty string, as argument
  or in the environment, switches the cache off and returns None.
  """
  chosen = os.fspath(path) if path is not None else os.environ.get(VARIABLE, os.fspath(default_path()))
  if not chosen:
    jax.config.update("jax_compilation_cache_dir", None)
    return None
  jax.config.update("jax_compilation_cache_dir", chosen)
  jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
  jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
  return pathlib.Path(chosen)


def quiet_logs() -> None:
  """Leaves warnings and errors of absl's log, which jax and orbax write their progress to."""
  from absl import logging

  logging.set_verbosity(logging.WARNING)
