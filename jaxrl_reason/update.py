"""One optimizer phase: all updates that one batch of rollouts pays for, as a single jitted program."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import Array, Float

from jaxrl_reason.runtime.metrics import reduce_stacked
from jaxrl_reason.types import Mean, Metrics, Objective, Params, Policy, Rollouts

Update = Callable[[Params, Any, Rollouts, Float[Array, "P G _"]], tuple[Params, Any, Metrics]]


class Batch(NamedTuple):
  """A part of one update with all that the loss reads of it; the leading axis is cut into micro-batches."""

  rollouts: Rollouts
  credit: Float[Array, "P G _"]
  weights: Float[Array, "P G T"]


def partition(params: Params, trainable: Params) -> tuple[Params, Params]:
  """(trainable, frozen): the same tree twice, with None where a leaf belongs to the other."""
  train = jax.tree.map(lambda x, keep: x if keep else None, params, trainable)
  frozen = jax.tree.map(lambda x, keep: None if keep else x, params, trainable)
  return train, frozen


def combine(train: Params, frozen: Params) -> Params:
  """The tree that `partition` split."""
  return jax.tree.map(lambda a, b: b if a is None else a, train, frozen, is_leaf=lambda x: x is None)


def _pad_rows(batch: Batch, multiple: int) -> Batch:
  """Repeats the last prompt with weight 0 and length 0 until the number of prompts is a multiple."""
  rows = batch.weights.shape[0]
  extra = -rows % multiple
  if not extra:
    return batch
  index = jnp.minimum(jnp.arange(rows + extra), rows - 1)
  real = jnp.arange(rows + extra) < rows
  padded = jax.tree.map(lambda x: x[index], batch)
  length = padded.rollouts.length * real[:, None]
  rollouts = Rollouts(**{**vars(padded.rollouts), "length": length})
  return padded._replace(rollouts=rollouts, weights=padded.weights * real[:, None, None])


def gradient(
  policy: Policy, objective: Objective, params: Params, trainable: Params, batch: Batch
) -> tuple[Params, Metrics]:
  """Gradient of Σ w·ℓ over these rows, with respect to the trainable leaves, and the metrics."""
  train, frozen = partition(params, trainable)

  def total(train: Params) -> tuple[Array, Metrics]:
    scores = policy.logp(combine(train, frozen), batch.rollouts)
    per_token, metrics = objective.loss(scores, batch.rollouts, batch.credit)
    loss = (jnp.where(batch.weights > 0, per_token, 0.0) * batch.weights).sum()
    return loss, {**metrics, "loss/total": Mean(loss, (batch.weights > 0).sum())}

  grads, metrics = jax.grad(total, has_aux=True)(train)
  return grads, jax.lax.stop_gradient(metrics)


def make_update(
  policy: Policy,
  objective: Objective,
  optimizer: optax.GradientTransformation,
  trainable: Params,
  *,
  epochs: int = 1,
  minibatches: int = 1,
  micro_batch: int = 0,
  mesh: Mesh | None = None,
) -> Update:
  """Builds `update(params, opt_state, rollouts, credit) → (params, opt_state, metrics)`; donates two.

  Each of `epochs` passes cuts the prompts into `minibatches` optimizer steps; each step accumulates over
  micro-batches of `micro_batch` rows (0 = all at once). Token weights are fixed from the whole optimizer
  step before it is cut, so the gradient is the same for every cut. Where a micro-batch holds whole groups, a
  prompt is computed once for its group. A step with a non-finite loss or gradient changes nothing and reports
  `finite` = 0.
  """
  devices = 1 if mesh is None else mesh.shape["data"] * mesh.shape["fsdp"]

  def shard(tree: Batch, axis: int) -> Batch:
    if mesh is None:
      return tree
    spec = PartitionSpec(*(None,) * axis, ("data", "fsdp"))
    return jax.lax.with_sharding_constraint(tree, NamedSharding(mesh, spec))

  def accumulate(params: Params, batch: Batch) -> tuple[Params, Metrics]:
    group = batch.weights.shape[1]
    whole_groups = micro_batch % group == 0
    if not whole_groups:
      batch = Batch(batch.rollouts.as_rows(), _rows(batch.credit), _rows(batch.weights))
    rows = batch.weights.shape[0]
    size = min(micro_batch // group if whole_groups else micro_batch, rows) or rows
    size += -size % devices
    batch = _pad_rows(batch, size)
    count = batch.weights.shape[0] // size
    if count == 1:
      return gradient(policy, objective, params, trainable, shard(batch, 0))
    micro = shard(jax.tree.map(lambda x: x.reshape(count, size, *x.shape[1:]), batch), 1)

    def body(total: Params, batch: Batch) -> tuple[Params, Metrics]:
      grads, metrics = gradient(policy, objective, params, trainable, batch)
      return jax.tree.map(jnp.add, total, grads), metrics

    zeros = jax.tree.map(jnp.zeros_like, partition(params, trainable)[0])
    grads, metrics = jax.lax.scan(body, zeros, micro)
    return grads, reduce_stacked(metrics)

  def one_step(carry: tuple[Params, Any], batch: Batch) -> tuple[tuple[Params, Any], Metrics]:
    params, opt_state = carry
    batch = batch._replace(weights=objective.weights(batch.rollouts))
    grads, metrics = accumulate(params, batch)
    grad_norm, loss = optax.global_norm(grads), metrics["loss/total"].sum  # type: ignore[union-attr]
    finite = jnp.isfinite(grad_norm) & jnp.isfinite(loss)
    train, frozen = partition(params, trainable)
    updates, new_state = optimizer.update(grads, opt_state, train)
    new = combine(optax.apply_updates(train, updates), frozen)
    keep = lambda a, b: jnp.where(finite, a, b)
    params, opt_state = jax.tree.map(keep, (new, new_state), (params, opt_state))
    one = jnp.ones(())
    metrics |= {
      "loss/total": Mean(loss, one),
      "grad_norm": Mean(grad_norm, one),
      "update_norm": Mean(optax.global_norm(updates), one),
      "finite": Mean(finite.astype(jnp.float32), one),
    }
    return (params, opt_state), metrics

  def update(params: Params, opt_state: Any, rollouts: Rollouts, credit: Float[Array, "P G _"]):
    batch = Batch(rollouts, credit, jnp.zeros(rollouts.completion.shape))
    batches = jax.tree.map(lambda x: x.reshape(minibatches, -1, *x.shape[1:]), batch)
    carry, metrics = (params, opt_state), None
    if epochs * minibatches == 1:
      carry, metrics = one_step(carry, batch)
      return *carry, metrics

    def epoch(carry: tuple[Params, Any], _: None) -> tuple[tuple[Params, Any], Metrics]:
      return jax.lax.scan(one_step, carry, batches)

    carry, stacked = jax.lax.scan(epoch, carry, length=epochs)
    stacked = jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), stacked)
    first = jax.tree.map(lambda x: x[0], stacked)
    metrics = reduce_stacked(stacked)
    metrics |= {name: value for name, value in first.items() if name.startswith("mismatch/")}
    return *carry, metrics

  return jax.jit(update, donate_argnums=(0, 1))


def _rows(x: Array) -> Array:
  return x.reshape(x.shape[0] * x.shape[1], 1, *x.shape[2:])
