"""A decoder as loops in NumPy, float64: one token, one head, one key at a time."""

import numpy as np


def _norm(x, scale, eps):
  return x / np.sqrt(np.mean(x * x) + eps) * scale


def _linear(weights, x):
  y = x @ weights["kernel"]
  return y + weights["bias"] if "bias" in weights else y


def _turn(x, position, theta):
  half = len(x) // 2
  out = np.empty_like(x)
  for i in range(half):
    angle = position * theta ** (-2 * i / len(x))
    out[i] = x[i] * np.cos(angle) - x[half + i] * np.sin(angle)
    out[half + i] = x[half + i] * np.cos(angle) + x[i] * np.sin(angle)
  return out


def _heads(config, layer, name, x, count, position):
  heads = _linear(layer[name], x).reshape(count, config.head_dim)
  if name == "v":
    return heads
  if config.qk_norm:
    heads = np.stack([_norm(h, layer[f"{name}_norm"]["scale"], config.norm_eps) for h in heads])
  return np.stack([_turn(h, position, config.rope_theta) for h in heads])


def _attention(config, layer, xs, positions, sees):
  normed = [_norm(x, layer["attention_norm"]["scale"], config.norm_eps) for x in xs]
  each = list(zip(normed, positions))
  q = [_heads(config, layer, "q", x, config.heads, p) for x, p in each]
  k = [_heads(config, layer, "k", x, config.kv_heads, p) for x, p in each]
  v = [_heads(config, layer, "v", x, config.kv_heads, p) for x, p in each]
  out = []
  for i in range(len(xs)):
    heads = []
    for h in range(config.heads):
      source = h // (config.heads // config.kv_heads)
      keys = [j for j in range(len(xs)) if sees(i, j)]
      scores = np.array([q[i][h] @ k[j][source] for j in keys]) / np.sqrt(config.head_dim)
      weights = np.exp(scores - scores.max())
      weights /= weights.sum()
      heads.append(sum(w * v[j][source] for w, j in zip(weights, keys)))
    out.append(_linear(layer["o"], np.concatenate(heads)))
  return out


def _mlp(config, layer, x):
  y = _norm(x, layer["mlp_norm"]["scale"], config.norm_eps)
  gate = _linear(layer["gate"], y)
  return _linear(layer["down"], gate / (1 + np.exp(-gate)) * _linear(layer["up"], y))


def hidden(config, params, tokens, positions=None, sees=None):
  """Hidden states [T, D] of one unpadded row; `params` unrolled, float64."""
  positions = range(len(tokens)) if positions is None else positions
  sees = sees or (lambda i, j: j <= i or not config.causal)
  xs = [params["embed"]["kernel"][t] for t in tokens]
  for i in range(config.layers):
    layer = params["layers"][i]
    xs = [x + y for x, y in zip(xs, _attention(config, layer, xs, positions, sees))]
    xs = [x + _mlp(config, layer, x) for x in xs]
  return np.stack([_norm(x, params["final_norm"]["scale"], config.norm_eps) for x in xs])


def logits(config, params, tokens):
  """Logits [T, V] of one unpadded row."""
  tied = config.tied_embeddings
  matrix = params["embed"]["kernel"].T if tied else params["unembed"]["kernel"]
  return hidden(config, params, tokens) @ matrix


def distribution(row, temperature=1.0, top_k=None, top_p=None, min_p=None):
  """Probabilities [V] of one row of logits under the rules, by sorting in Python."""
  z = np.asarray(row, np.float64) / temperature
  p = np.exp(z - z.max())
  p /= p.sum()
  ranked = sorted(range(len(p)), key=lambda i: (-p[i], i))
  kept = set(ranked)
  if top_k is not None:
    kept = set(ranked[:top_k])
  if top_p is not None:
    total, kept = 0.0, set()
    for i in ranked:
      if total >= top_p:
        break
      kept.add(i)
      total += p[i]
  if min_p is not None:
    kept = {i for i in ranked if p[i] >= min_p * p.max()}
  p = np.array([x if i in kept else 0.0 for i, x in enumerate(p)])
  return p / p.sum()
