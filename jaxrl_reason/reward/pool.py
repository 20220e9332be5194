"""Killable workers: every item has a hard time limit, results keep their order, no worker is lost."""

from __future__ import annotations

import atexit
import collections
import contextlib
import dataclasses
import multiprocessing
import pickle
import threading
import time
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection, wait
from typing import Any, NamedTuple

_START_LIMIT = 120.0  # seconds for a worker to import what it needs
_FAILED_STARTS = 3  # workers in a row that never became ready, before giving up


class Result(NamedTuple):
  """What became of one item: a value, or an error, or neither because its time was up."""

  value: Any = None
  error: str = ""
  timeout: bool = False


class Pool:
  """Applies `function` to items in worker processes, each item within `seconds`.

  A worker past its limit is killed and replaced, as is one that dies; only that item is lost. The clock of
  an item runs from when a ready worker takes it. Processes are spawned, never forked: the parent may hold
  threads of JAX. `prepare` runs once in each new worker, off the clock. `map` may be called from any thread.
  Source: this project.
  """

  def __init__(
    self,
    function: Callable[[Any], Any],
    *,
    workers: int = 2,
    seconds: float = 5.0,
    prepare: Callable[[], Any] | None = None,
  ):
    if workers < 1 or not seconds > 0:
      raise ValueError(f"Pool: workers={workers}, seconds={seconds}; allowed: at least 1 and more than 0")
    self.seconds = seconds
    self._function = pickle.dumps((function, prepare))
    self._size = workers
    self._workers: list[_Worker] = []
    self._failed_starts = 0
    self._lock = threading.Lock()
    atexit.register(self.close)

  def map(self, items: Sequence[Any]) -> list[Result]:
    """One result for each item, in their order.

    Raises:
      RuntimeError: if workers cannot even start.
    """
    with self._lock:
      try:
        return self._map(items)
      except BaseException:
        self.close()  # no worker keeps an item of a call that ended
        raise

  def close(self) -> None:
    """Ends every worker. The pool may be used again: it starts new ones."""
    for worker in self._workers:
      worker.stop()
    self._workers = []

  def pids(self) -> list[int]:
    """The process ids of the living workers."""
    return [w.process.pid for w in self._workers if w.process.is_alive() and w.process.pid is not None]

  def _map(self, items: Sequence[Any]) -> list[Result]:
    todo = collections.deque(enumerate(items))
    results: dict[int, Result] = {}
    for worker in [w for w in self._workers if w.ready and not w.process.is_alive()]:
      self._drop(worker)  # it died while idle
    while len(results) < len(items):
      while len(self._workers) < min(self._size, len(items)):
        self._workers.append(_start(self._function))
      for worker in self._workers:
        if worker.ready and worker.index is None and todo:
          worker.take(*todo.popleft(), self.seconds)
      self._collect(results)
    return [results[index] for index in range(len(items))]

  def _collect(self, results: dict[int, Result]) -> None:
    """Waits for the next message or deadline, and books what every worker has to say."""
    patience = max(0.0, min(w.deadline for w in self._workers) - time.monotonic())
    wait([w.pipe for w in self._workers], None if patience == float("inf") else patience)
    for worker in list(self._workers):
      if worker.pipe.poll():
        self._hear(worker, results)
      elif time.monotonic() >= worker.deadline:
        if worker.index is not None:
          results[worker.index] = Result(timeout=True)
        self._drop(worker)

  def _hear(self, worker: _Worker, results: dict[int, Result]) -> None:
    """One message: a result, the greeting of a new worker, or the silence of a dead one."""
    try:
      message = worker.pipe.recv()
    except (EOFError, OSError, pickle.UnpicklingError) as error:
      if worker.index is not None:
        results[worker.index] = Result(error=f"the worker died ({type(error).__name__})")
      self._drop(worker)
      return
    if worker.index is not None:
      results[worker.index] = message
    self._failed_starts = 0
    worker.ready, worker.index, worker.deadline = True, None, float("inf")

  def _drop(self, worker: _Worker) -> None:
    worker.stop()
    self._workers.remove(worker)
    self._failed_starts += not worker.ready
    if self._failed_starts >= _FAILED_STARTS:
      self._failed_starts = 0
      raise RuntimeError(
        f"{_FAILED_STARTS} verifier workers in a row did not start; allowed: a verifier that can be imported "
        f"(a function at the top level of a module), called under `if __name__ == '__main__':` in scripts"
      )


@dataclasses.dataclass(eq=False)
class _Worker:
  process: Any
  pipe: Connection
  deadline: float
  ready: bool = False
  index: int | None = None  # the item at work

  def take(self, index: int, item: Any, seconds: float) -> None:
    self.index, self.deadline = index, time.monotonic() + seconds
    with contextlib.suppress(OSError):  # it died while idle: reading its pipe will say so
      self.pipe.send(item)

  def stop(self) -> None:
    self.process.kill()
    self.process.join()
    self.pipe.close()


def _start(function: bytes) -> _Worker:
  context = multiprocessing.get_context("spawn")
  ours, theirs = context.Pipe()
  process = context.Process(target=_serve, args=(theirs, function), daemon=True)
  process.start()
  theirs.close()
  return _Worker(process, ours, time.monotonic() + _START_LIMIT)


def _serve(pipe: Connection, pickled: bytes) -> None:
  """The life of a worker: load the function, say so, answer items until the parent goes."""
  function, prepare = pickle.loads(pickled)
  if prepare is not None:
    prepare()
  pipe.send("ready")
  while True:
    try:
      item = pipe.recv()
    except (EOFError, OSError):
      return
    try:
      result = Result(value=function(item))
    except Exception as error:
      result = Result(error=f"{type(error).__name__}: {error}")
    try:
      pipe.send(result)
    except Exception as error:
      pipe.send(Result(error=f"the result cannot be sent: {type(error).__name__}: {error}"))
