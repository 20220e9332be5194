"""Strict by default: eight virtual devices, shapes checked, no rank promotion, one compilation cache."""

import os
import pathlib

os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + " --xla_force_host_platform_device_count=8"
# Compilation dominates small tests: kernels are left unoptimised, which changes rounding at the most.
os.environ["XLA_FLAGS"] += " --xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true"
os.environ.setdefault("HF_HUB_OFFLINE", "1")

import jax
from jaxtyping import install_import_hook

_CACHE = pathlib.Path(__file__).parent / ".cache" / "jax"
jax.config.update("jax_compilation_cache_dir", str(_CACHE))
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
jax.config.update("jax_numpy_rank_promotion", "raise")

# Every module but types.py, whose pytrees are also rebuilt with placeholders in their leaves, and those whose
# own checks are what users meet.
_PACKAGE = pathlib.Path(__file__).parent.parent / "jaxrl_reason"
_MODULES = [
  f"jaxrl_reason.{p.stem}"
  for p in _PACKAGE.iterdir()
  if p.stem not in ("types", "settings", "method", "__init__")
]
install_import_hook(_MODULES, "beartype.beartype")
