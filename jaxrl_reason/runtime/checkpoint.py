"""Atomic checkpoints: the newest complete one wins, the last few and the best are kept.

A thin layer over orbax's `CheckpointManager` (temporary directory, then rename). A state is stored as a flat
mapping of leaf paths. Beside it lies a record of shapes, dtypes and checksums: a checkpoint of another model
is refused by the name of its first differing leaf before any array is read, and a flipped bit is noticed.
"""

from __future__ import annotations

import contextlib
import json
import logging
import math
import os
import shutil
import warnings
import zlib
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, SupportsFloat

import jax
import jax.numpy as jnp
import numpy as np

Leaves = dict[str, Any]
_REPLACED = "replaced-"


class Restored(NamedTuple):
  """A checkpoint: the step it was saved at, the state, and the JSON-able rest (cursors, curriculum)."""

  step: int
  state: Any
  extra: dict[str, Any]


class CheckpointMismatch(ValueError):
  """The checkpoint holds the state of another model or optimizer."""


class BrokenCheckpoint(RuntimeError):
  """The checkpoint is complete by name, and its bytes are not what was written."""


class Checkpoints:
  """The checkpoints of one run, in `workdir/checkpoints`.

  Arrays come back bit for bit, in the sharding of the target (uncommitted where the target's leaf is). Saving
  at a step removes checkpoints of later steps: they belong to a future that the run has abandoned.
  Typed PRNG keys and Python numbers are no leaves: store `jax.random.key_data`, or put them into `extra`.
  """

  def __init__(self, workdir: str | os.PathLike, keep: int = 2):
    if keep < 1:
      raise ValueError(f"Checkpoints: keep = {keep} must be at least 1")
    self.directory = _absolute(os.path.join(os.fspath(workdir), "checkpoints"))
    self.keep = keep
    self._broken: set[int] = set()
    self._owned = False
    self._open()

  def __enter__(self) -> Checkpoints:
    return self

  def __exit__(self, *_: object) -> None:
    self.close()

  def close(self) -> None:
    with _quiet():
      self._manager.close()

  def _open(self) -> None:
    with _quiet():
      import orbax.checkpoint as ocp

      self._ocp: Any = ocp
      options = ocp.CheckpointManagerOptions(
        enable_async_checkpointing=False, cleanup_tmp_directories=self._owned
      )
      self._manager = ocp.CheckpointManager(self.directory, options=options)
    self._metrics = {step: self._metric(step) for step in self.steps()}

  def _own(self) -> None:
    """Cleans up behind a killed run, before this one writes. A mere reader must not: it may be alive."""
    if not self._owned:
      self._owned = True
      self.close()
      self._put_back_replaced()
      self._open()

  def steps(self) -> list[int]:
    """Steps that have a complete checkpoint, oldest first."""
    return sorted(self._manager.all_steps())

  def best_step(self) -> int | None:
    """The step with the highest metric, the newest of equals; None if no checkpoint has a metric."""
    scored = [(metric, step) for step, metric in self._metrics.items() if metric is not None]
    return max(scored)[1] if scored else None

  def save(
    self, step: int, state: Any, extra: Mapping[str, Any] | None = None, metric: SupportsFloat | None = None
  ) -> None:
    """Writes the state of after `step` updates, then removes what need not be kept.

    `metric`: higher is better; None or a number that is not finite leaves the checkpoint out of "best".
    """
    self._own()
    leaves = _leaves(state)
    score = math.nan if metric is None else float(metric)
    scored = score if math.isfinite(score) else None
    manifest = {path: _describe(leaf) for path, leaf in leaves.items()}
    checksums = {path: _checksum(leaf) for path, leaf in leaves.items()}
    record = {"leaves": manifest, "checksums": checksums, "extra": dict(extra or {}), "metric": scored}
    text = json.dumps(record, allow_nan=False)  # an unserialisable `extra` fails before anything is written
    sealed = {"text": text, "checksum": zlib.crc32(text.encode())}
    stored = {path: leaf for path, leaf in leaves.items() if leaf.size} or {"": np.zeros(1)}
    args = self._ocp.args
    with _quiet():
      if step in self.steps():
        self._set_aside(step)
      self._manager.save(
        step,
        args=args.Composite(state=args.PyTreeSave(stored), record=args.JsonSave(sealed)),
        force=True,
      )
      self._metrics[step] = scored
      self._broken.discard(step)
      self._put_back_replaced()
      for later in [s for s in self.steps() if s > step]:
        self._remove(later)
      self._prune()

  def restore_latest(self, target: Any) -> Restored | None:
    """The newest checkpoint that can be read, or None if there is none: for the run that goes on from it.

    `target` is the state to fill: arrays or `jax.ShapeDtypeStruct`s. A broken checkpoint is skipped with a
    warning that names it; a readable one of another model raises `CheckpointMismatch`.
    """
    self._own()
    for step in reversed(self.steps()):
      try:
        return self._read(step, target)
      except CheckpointMismatch:
        raise
      except Exception as error:
        self._broken.add(step)
        warnings.warn(
          f"checkpoint {step} in {self.directory} cannot be read and is skipped: "
          f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}",
          stacklevel=2,
        )
    return None

  def restore(self, which: int | str, target: Any, *, subset: bool = False) -> Restored:
    """The checkpoint of a step, of the "best" metric or the "last" step.

    With `subset`, the file may hold more leaves than `target` (the parameters of a whole training state).
    """
    named = {"best": self.best_step(), "last": max(self.steps(), default=None)}
    step = named.get(which) if isinstance(which, str) else which
    if step is None or step not in self.steps():
      raise FileNotFoundError(
        f"no checkpoint {which!r} in {self.directory}; steps there: {self.steps() or 'none'}, "
        f"'last' is {named['last']}, 'best' is {named['best']}"
      )
    return self._read(step, target, subset)

  def _read(self, step: int, target: Any, subset: bool = False) -> Restored:
    record = self._record(step)
    wanted = _leaves(target)
    where = f"checkpoint {step} in {self.directory}"
    _check_same(record["leaves"], {path: _describe(leaf) for path, leaf in wanted.items()}, where, subset)
    abstract = {path: _as_read(leaf) for path, leaf in wanted.items() if math.prod(leaf.shape)}
    ocp = self._ocp
    if abstract:
      restore = ocp.args.PyTreeRestore(
        abstract, ocp.checkpoint_utils.construct_restore_args(abstract), partial_restore=True
      )
      with _quiet():
        read = self._manager.restore(step, args=ocp.args.Composite(state=restore))["state"]
    else:
      read = {}
    for path, array in read.items():
      if record["checksums"][path] not in (None, _checksum(array)):
        raise BrokenCheckpoint(f"{where}: the bytes of {path} are not those that were written")
    filled = [_as_wanted(read.get(path), leaf) for path, leaf in wanted.items()]
    state = jax.tree.unflatten(jax.tree.structure(target), filled)
    return Restored(step, state, record["extra"])

  def _record(self, step: int) -> dict[str, Any]:
    args = self._ocp.args
    with _quiet():
      sealed = self._manager.restore(step, args=args.Composite(record=args.JsonRestore()))["record"]
    if zlib.crc32(sealed["text"].encode()) != sealed["checksum"]:
      raise BrokenCheckpoint(f"checkpoint {step} in {self.directory}: its record is not what was written")
    return json.loads(sealed["text"])

  def _metric(self, step: int) -> float | None:
    try:
      return self._record(step)["metric"]
    except Exception:  # a broken checkpoint is reported when it is restored
      return None

  def _set_aside(self, step: int) -> None:
    """Makes room for a second checkpoint of a step; a kill before that one is complete loses nothing."""
    if "://" in self.directory:  # an object store has no rename
      self._remove(step)
      return
    if jax.process_index() == 0:
      os.rename(os.path.join(self.directory, str(step)), os.path.join(self.directory, f"{_REPLACED}{step}"))
    if jax.process_count() > 1:
      from jax.experimental import multihost_utils

      multihost_utils.sync_global_devices(f"checkpoint {step} set aside")
    self._manager.reload()

  def _put_back_replaced(self) -> None:
    """Replaced checkpoints: removed where the new one is complete, else put back."""
    if "://" in self.directory or jax.process_index() != 0 or not os.path.isdir(self.directory):
      return
    for name in os.listdir(self.directory):
      if name.startswith(_REPLACED):
        old, new = (os.path.join(self.directory, n) for n in (name, name.removeprefix(_REPLACED)))
        shutil.rmtree(old) if os.path.isdir(new) else os.rename(old, new)

  def _prune(self) -> None:
    whole = [step for step in self.steps() if step not in self._broken]
    wanted = {*whole[-self.keep :], self.best_step()}
    for step in self.steps():
      if step not in wanted:
        self._remove(step)

  def _remove(self, step: int) -> None:
    self._manager.delete(step)
    self._metrics.pop(step, None)
    self._broken.discard(step)


def _absolute(path: str) -> str:
  return path if "://" in path else os.path.abspath(path)


def _leaves(state: Any) -> Leaves:
  """The leaves by path, in tree order. Errors name the leaf that cannot be stored."""
  leaves: Leaves = {}
  for keys, leaf in jax.tree_util.tree_leaves_with_path(state):
    path = jax.tree_util.keystr(keys, simple=True, separator=".")
    if path in leaves:
      raise ValueError(f"two leaves of the state have the path {path!r}; rename one")
    if not hasattr(leaf, "dtype") or not hasattr(leaf, "shape"):
      raise TypeError(f"{path} is a {type(leaf).__name__}, not an array; put it into `extra`")
    if jnp.issubdtype(leaf.dtype, jax.dtypes.extended):
      raise TypeError(f"{path} has the dtype {leaf.dtype}; store jax.random.key_data of it")
    leaves[path] = np.asarray(leaf) if isinstance(leaf, np.generic) else leaf
  return leaves


def _describe(leaf: Any) -> list[Any]:
  """Dtype and shape as they stand in the manifest."""
  return [str(np.dtype(leaf.dtype)), [int(d) for d in leaf.shape]]


def _checksum(leaf: Any) -> int | None:
  """CRC-32 of the bytes; None where other hosts hold a part of the array."""
  if not getattr(leaf, "is_fully_addressable", True):
    return None
  return zlib.crc32(np.ascontiguousarray(leaf).reshape(-1).view(np.uint8).data)


def _check_same(held: Mapping[str, Any], wanted: Mapping[str, Any], where: str, subset: bool) -> None:
  """Raises `CheckpointMismatch` that names the first leaf which differs."""
  order = [*wanted, *(() if subset else (path for path in held if path not in wanted))]
  for path in order:
    if held.get(path) != wanted.get(path):
      in_file, expected = (
        f"{side[path][0]}{side[path][1]}" if path in side else "nothing" for side in (held, wanted)
      )
      raise CheckpointMismatch(
        f"{where} is of another state: at {path} the file holds {in_file}, expected {expected}"
      )


def _as_read(leaf: Any) -> Any:
  """How orbax is asked for a leaf: sharded where the target is, else as a NumPy array."""
  sharding = getattr(leaf, "sharding", None)
  if sharding is None or not getattr(leaf, "committed", True):
    return np.empty(leaf.shape, leaf.dtype)
  return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=sharding)


def _as_wanted(read: Any, leaf: Any) -> Any:
  """The leaf as the target has it: NumPy, uncommitted or sharded. None: an array without elements."""
  read = np.zeros(leaf.shape, leaf.dtype) if read is None else read
  if isinstance(leaf, (np.ndarray, np.generic)):
    return np.asarray(read)
  sharding = getattr(leaf, "sharding", None)
  if sharding is None or not getattr(leaf, "committed", True):
    return jnp.asarray(read)
  return read if isinstance(read, jax.Array) else jax.device_put(read, sharding)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
  """Without orbax's progress log and its notes on defaults; errors still raise."""
  logger = logging.getLogger("absl")
  level = logger.level
  logger.setLevel(logging.CRITICAL)
  try:
    with warnings.catch_warnings():
      warnings.simplefilter("ignore")
      yield
  finally:
    logger.setLevel(level)
