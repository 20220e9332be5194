"""The decoder against loops in NumPy, and its four uses against each other."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxrl_reason.models import config as configs
from jaxrl_reason.models import decoder
from jaxrl_reason.models.config import ModelConfig
from jaxrl_reason.models.params import (
  abstract_params,
  flatten,
  init_params,
  logical_axes,
  stack_layers,
  unstack_layers,
)
from tests.models import oracle, toys

TOKENS = jnp.asarray(np.random.default_rng(3).integers(0, 17, (2, 6)), jnp.int32)


def forward(config, params, tokens, **kw):
  call = jax.jit(lambda p, t: decoder.unembed(config, p, decoder.hidden_states(config, p, t, **kw)))
  return call(params, tokens)


def hidden(config, params, inputs, positions=None, mask=None):
  return jax.jit(lambda p, x: decoder.hidden_states(config, p, x, positions, mask))(params, inputs)


def expected(config, params, tokens):
  params = toys.as_float64(unstack_layers(params) if config.scan_layers else params)
  return np.stack([oracle.logits(config, params, row) for row in np.asarray(tokens)])


@pytest.mark.parametrize("name", [*toys.FAMILIES, "bidirectional"])
def test_forward_equals_the_loops(name):
  config = toys.FAMILIES.get(name) or toys.BASE.replace(causal=False)
  params = toys.toy(config)
  got = forward(config, params, TOKENS)
  assert got.dtype == jnp.float32
  np.testing.assert_allclose(got, expected(config, params, TOKENS), rtol=1e-4, atol=1e-4)


def test_positions_and_masks_are_those_that_are_given():
  params = toys.toy()
  positions = jnp.asarray([[3, 4, 9, 10, 11, 2], [0, 1, 1, 2, 2, 3]])
  window = lambda q, k: (k <= q) & (k > q - 3)
  got = hidden(toys.BASE, params, TOKENS, positions, window)
  for i in range(2):
    want = oracle.hidden(
      toys.BASE,
      toys.as_float64(params),
      np.asarray(TOKENS[i]),
      np.asarray(positions[i]),
      lambda q, k: q - 3 < k <= q,
    )
    np.testing.assert_allclose(got[i], want, rtol=1e-4, atol=1e-4)
  index = jnp.arange(6)
  array = window(index[None, :, None], index[None, None, :])
  again = hidden(toys.BASE, params, TOKENS, positions, array)
  np.testing.assert_allclose(got, again, rtol=1e-5, atol=1e-5)


def test_embeddings_in_place_of_tokens():
  params = toys.toy()
  embedded = params["embed"]["kernel"][TOKENS]
  np.testing.assert_allclose(
    hidden(toys.BASE, params, embedded), hidden(toys.BASE, params, TOKENS), rtol=1e-5, atol=1e-5
  )


@pytest.mark.case(18)
def test_bidirectional_padding_is_hidden_by_the_length_mask():
  config = toys.BASE.replace(causal=False)
  params, length = toys.toy(config), jnp.asarray([4, 6])
  mask = decoder.length_mask(config, length, 6)
  changed = TOKENS.at[0, 4:].set(1)
  a, b = (hidden(config, params, tokens, mask=mask) for tokens in (TOKENS, changed))
  np.testing.assert_array_equal(a[0, :4], b[0, :4])
  want = oracle.hidden(config, toys.as_float64(params), np.asarray(TOKENS[0, :4]))
  np.testing.assert_allclose(a[0, :4], want, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", ["gqa", "stacked"])
def test_shared_prompt_and_decode_equal_the_full_forward(name):
  config = toys.FAMILIES[name]
  params, prompts = toys.toy(config), toys.prompts()
  completion = jnp.asarray(np.random.default_rng(5).integers(0, 17, (3, 2, 4)), jnp.int32)

  @jax.jit
  def run(params):
    context, last = decoder.prefill(config, params, prompts.tokens, prompts.length)
    cache = decoder.empty_cache(config, (3, 2), 5)
    steps = []
    for t in range(4):
      state, cache = decoder.decode_step(
        config, params, context, cache, tokens=completion[:, :, t], step=jnp.int32(t)
      )
      steps.append(state)
    return last, decoder.extend(config, params, context, completion), jnp.stack(steps, axis=2)

  last, extended, decoded = run(params)
  plain = toys.as_float64(unstack_layers(params) if config.scan_layers else params)
  for p, n in enumerate(np.asarray(prompts.length)):
    for g in range(2):
      tokens = np.concatenate([np.asarray(prompts.tokens[p, :n]), np.asarray(completion[p, g])])
      want = oracle.hidden(config, plain, tokens)
      np.testing.assert_allclose(last[p], want[n - 1], rtol=1e-4, atol=1e-4)
      np.testing.assert_allclose(extended[p, g], want[n:], rtol=1e-4, atol=1e-4)
      np.testing.assert_allclose(decoded[p, g], want[n:], rtol=1e-4, atol=1e-4)


def test_stacked_equals_unrolled_in_value_and_gradient():
  stacked = toys.BASE.replace(scan_layers=True, remat=True)
  params = toys.toy()

  def loss(config):
    return lambda params: jnp.sin(decoder.hidden_states(config, params, TOKENS)).sum()

  value, grad = jax.jit(jax.value_and_grad(loss(toys.BASE)))(params)
  value2, grad2 = jax.jit(jax.value_and_grad(loss(stacked)))(stack_layers(params))
  np.testing.assert_allclose(value, value2, rtol=1e-5)
  for a, b in zip(jax.tree.leaves(stack_layers(grad)), jax.tree.leaves(grad2)):
    np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-4)


def test_stacking_is_undone_and_initial_values_do_not_depend_on_it():
  key = jax.random.key(4)
  flat, stacked = init_params(toys.BASE, key), init_params(toys.BASE.replace(scan_layers=True), key)
  jax.tree.map(np.testing.assert_array_equal, unstack_layers(stacked), flat)
  jax.tree.map(np.testing.assert_array_equal, stack_layers(flat), stacked)
  layers = [flatten(flat)[("layers", i, "q", "kernel")] for i in range(2)]
  assert not np.array_equal(*layers)


@pytest.mark.parametrize("name", list(toys.FAMILIES))
def test_every_parameter_has_a_shape_and_an_axis_name_per_dimension(name):
  config = toys.FAMILIES[name].replace(value_head=True)
  params, axes = jax.eval_shape(lambda: init_params(config, jax.random.key(0))), logical_axes(config)
  shapes = abstract_params(config)
  assert jax.tree.structure(params) == jax.tree.structure(shapes)
  assert jax.tree.structure(params) == jax.tree.structure(axes, is_leaf=lambda x: isinstance(x, tuple))
  for path, value in flatten(params).items():
    assert value.shape == flatten(shapes)[path].shape
    assert len(flatten(axes)[path]) == value.ndim
    assert (flatten(axes)[path][0] == "layers") == (config.scan_layers and path[0] == "layers")


def test_value_head_is_a_linear_map_of_the_hidden_state():
  config = toys.BASE.replace(value_head=True)
  params = toys.toy(config)
  states = jnp.asarray(np.random.default_rng(0).normal(size=(2, 3, 16)), jnp.float32)
  got = decoder.values(config, params, states)
  np.testing.assert_allclose(got, (states @ params["value_head"]["kernel"])[..., 0], rtol=1e-5, atol=1e-5)
  with pytest.raises(ValueError, match="value_head=False"):
    decoder.values(toys.BASE, toys.toy(), states)


def test_bfloat16_stays_near_float32_and_returns_float32_logits():
  params = toys.toy()
  exact = forward(toys.BASE, params, TOKENS)
  rough = forward(toys.BASE.replace(dtype="bfloat16"), params, TOKENS)
  assert rough.dtype == jnp.float32
  assert float(jnp.abs(rough - exact).max() / jnp.abs(exact).max()) < 0.05


def test_a_query_that_sees_nothing_stays_finite():
  nothing = lambda q, k: (k < q) & (k >= 0)
  assert bool(jnp.isfinite(hidden(toys.BASE, toys.toy(), TOKENS, mask=nothing)).all())


def test_bidirectional_models_are_not_prefilled():
  config = toys.BASE.replace(causal=False)
  with pytest.raises(ValueError, match=r"causal=False.*prefill"):
    decoder.prefill(config, toys.toy(), TOKENS, jnp.asarray([6, 6]))


def test_config_survives_json_and_names_its_errors():
  config = toys.FAMILIES["biases"]
  assert configs.from_dict(configs.to_dict(config)) == config
  with pytest.raises(ValueError, match=r"no field 'rope_teta'.*did you mean 'rope_theta'"):
    configs.from_dict({**configs.to_dict(config), "rope_teta": 1.0})
  with pytest.raises(ValueError, match="lacks vocab_size"):
    configs.from_dict({"width": 4})


@pytest.mark.parametrize(
  ("changes", "words"),
  [
    ({"layers": 0}, r"layers=0; allowed"),
    ({"kv_heads": 3}, r"kv_heads=3; .*divisors 1, 2, 4"),
    ({"head_dim": 5}, r"head_dim=5; allowed: an even"),
    ({"norm_eps": 0.0}, r"norm_eps=0\.0; allowed"),
    ({"dtype": "bfloat"}, r"dtype='bfloat'; .*did you mean 'bfloat16'"),
  ],
)
def test_impossible_configs_are_refused(changes, words):
  with pytest.raises(ValueError, match=words):
    toys.BASE.replace(**changes)


def test_configs_are_equal_by_value():
  assert ModelConfig(**configs.to_dict(toys.BASE)) == toys.BASE
  assert hash(toys.BASE) == hash(toys.BASE.replace())
