"""How many programs XLA was asked to compile: a silent second compilation is a bug made visible."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import jax

_EVENT = "/jax/core/compile/backend_compile_duration"


class _Total:
  """Compilations of this process since the first use of this module (jax keeps listeners for good)."""

  def __init__(self) -> None:
    self.count = 0
    self.seconds = 0.0

  def hear(self, event: str, duration_secs: float, **_: str | int) -> None:
    if event == _EVENT:
      self.count += 1
      self.seconds += duration_secs


_TOTAL = _Total()
jax.monitoring.register_event_duration_secs_listener(_TOTAL.hear)


def total() -> int:
  """Compilations of this process since this module was imported, those found in the disk cache included."""
  return _TOTAL.count


class CompileCounter:
  """Counts compilations from its making on, or those inside a `with` block (readable inside and after it).

  A program that comes from the persistent cache counts too: it was new to this process. Every eager operation
  on a new shape is a small program of its own.
  """

  def __init__(self) -> None:
    self._start = (_TOTAL.count, _TOTAL.seconds)
    self._end: tuple[int, float] | None = None

  def __enter__(self) -> CompileCounter:
    self._start, self._end = (_TOTAL.count, _TOTAL.seconds), None
    return self

  def __exit__(self, *_: object) -> None:
    self._end = (_TOTAL.count, _TOTAL.seconds)

  @property
  def count(self) -> int:
    return (self._end or (_TOTAL.count, 0.0))[0] - self._start[0]

  @property
  def seconds(self) -> float:
    return (self._end or (0, _TOTAL.seconds))[1] - self._start[1]


def first_call(function: Callable[[], Any]) -> tuple[Any, int, float]:
  """(result, compilations, seconds) of one call that is waited for: what the first step costs."""
  start = time.perf_counter()
  with CompileCounter() as compiled:
    result = jax.block_until_ready(function())
  return result, compiled.count, time.perf_counter() - start
