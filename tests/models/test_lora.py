"""Low-rank updates: unchanged at the start, merged = unmerged, and only they are trained."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxrl_reason.models import decoder, lora
from jaxrl_reason.models.params import abstract_params, unrolled
from tests.models import toys

TOKENS = jnp.asarray(np.random.default_rng(3).integers(0, 17, (2, 5)), jnp.int32)
EVERYTHING = ("q", "k", "v", "o", "gate", "up", "down", "unembed")


def logits(config):
  return jax.jit(lambda p: decoder.unembed(config, p, decoder.hidden_states(config, p, TOKENS)))


def adapted(config, targets, moved):
  """Base and low-rank parameters; `moved`: B no longer zero."""
  fresh = lora.init_lora(config, jax.random.key(2), rank=2, alpha=3.0, targets=targets)
  if moved:
    keep = lambda x: x + 0.3 * jax.random.normal(jax.random.key(3), x.shape)
    fresh = fresh._replace(matrices=jax.tree.map(keep, fresh.matrices))
  return lora.with_lora(toys.toy(config), fresh)


@pytest.mark.parametrize(("name", "targets"), [("untied", EVERYTHING), ("stacked", ("q", "down"))])
def test_starts_unchanged_and_merges_to_the_same_function(name, targets):
  config = toys.FAMILIES[name]
  call, base = logits(config), toys.toy(config)
  np.testing.assert_array_equal(call(adapted(config, targets, moved=False)), call(base))
  params = adapted(config, targets, moved=True)
  merged = lora.merge_lora(params)
  assert jax.tree.structure(merged) == jax.tree.structure(abstract_params(config))
  want = call(params)
  assert float(jnp.abs(want - call(base)).max()) > 0.1
  np.testing.assert_allclose(call(merged), want, rtol=1e-5, atol=1e-5 * float(jnp.abs(want).max()))
  assert params["scale"] == 1.5


def test_stacked_updates_are_unstacked_with_their_layers():
  config = toys.FAMILIES["stacked"]
  params = adapted(config, ("q", "down"), moved=True)
  flat_config, flat = unrolled(config, params)
  assert not flat_config.scan_layers
  np.testing.assert_allclose(logits(flat_config)(flat), logits(config)(params), rtol=1e-4, atol=1e-4)


def test_only_the_low_rank_matrices_are_trained():
  config = toys.BASE
  params = adapted(config, ("q", "v"), moved=True)
  mask = lora.trainable_mask(params)
  assert jax.tree.structure(mask) == jax.tree.structure(params)
  assert all(jax.tree.leaves(mask["lora"]))
  assert not any(jax.tree.leaves((mask["base"], mask["scale"])))
  trained, frozen = lora.split_trainable(params)
  jax.tree.map(np.testing.assert_array_equal, lora.join_trainable(trained, frozen), params)
  hidden = lambda p: decoder.hidden_states(config, p, TOKENS)
  grad = jax.jit(jax.grad(lambda t: hidden(lora.join_trainable(t, frozen)).sum()))(trained)
  assert jax.tree.structure(grad) == jax.tree.structure(trained)
  assert all(float(jnp.abs(g).max()) > 0 for g in jax.tree.leaves(grad))


def test_plain_parameters_are_all_trained():
  params = toys.toy()
  assert all(jax.tree.leaves(lora.trainable_mask(params)))
  assert lora.join_trainable(*lora.split_trainable(params)) is params


def test_axes_match_the_matrices():
  config = toys.FAMILIES["stacked"]
  axes = lora.lora_axes(config, ("o",))
  matrices = lora.init_lora(config, jax.random.key(0), rank=2, alpha=1, targets=("o",)).matrices
  assert axes == {
    "layers": {"o": {"lora_a": ("layers", "heads", "rank"), "lora_b": ("layers", "rank", "embed")}}
  }
  assert matrices["layers"]["o"]["lora_a"].shape == (2, 16, 2)


@pytest.mark.parametrize(
  ("changes", "words"),
  [
    ({"targets": ("gates",)}, r"targets holds 'gates'; allowed: .*did you mean 'gate'"),
    ({"targets": ()}, "targets is empty"),
    ({"targets": ("unembed",)}, "tied_embeddings=True"),
    ({"rank": 0}, "rank=0; allowed"),
  ],
)
def test_impossible_updates_are_refused(changes, words):
  with pytest.raises(ValueError, match=words):
    lora.init_lora(toys.BASE, jax.random.key(0), **{"rank": 2, "alpha": 1.0, "targets": ("q",), **changes})
