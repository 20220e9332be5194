"""What k samples of a problem would earn, estimated without bias from n ≥ k of them.

Shape letters: `N` problems, `n` samples of each. Host functions in float64 NumPy: evaluation is not a part of
the compiled step, and binomials of n = 1000 overflow float32.
"""

from __future__ import annotations

import jax
import numpy as np
from jaxtyping import Bool, Float, Integer

HostOrDevice = np.ndarray | jax.Array

NO_ANSWER = -1


def _check_k(k: int, n: int, name: str) -> None:
  if not 1 <= k <= n:
    raise ValueError(f"{name}: k = {k} needs 1 ≤ k ≤ n, and there are n = {n} samples of each problem")


def pass_at_k(correct: Bool[HostOrDevice, "N n"], k: int) -> Float[np.ndarray, " N"]:
  """The probability that k of the n samples, drawn without replacement, hold a correct one.

    pass@k = 1 − C(n−c, k) / C(n, k) = 1 − ∏ᵢ₌₀ᵏ⁻¹ (n−c−i)⁺ / (n−i),   c = number correct

  Unbiased for 1 − (1−p)ᵏ with p the problem's success rate. Units: probability.
  Errors: ValueError unless 1 ≤ k ≤ n. Source: Chen et al. 2021 (arXiv 2107.03374), eq. 1, as a product.
  """
  correct = np.asarray(correct)
  n = correct.shape[1]
  _check_k(k, n, "pass_at_k")
  wrong = n - correct.sum(axis=1)
  drawn = np.arange(k)
  none_correct = np.maximum(wrong[:, None] - drawn[None], 0) / (n - drawn)[None]
  return 1.0 - none_correct.prod(axis=1)


def maj_at_k(
  answers: Integer[HostOrDevice, "N n"], gold: Integer[HostOrDevice, " N"], k: int
) -> Float[np.ndarray, " N"]:
  """The probability that the majority answer of k of the n samples, drawn without replacement, is gold.

    maj@k = E_S [ 1[g_S > 0 and g_S = maxₐ cₐ(S)] / |{a : cₐ(S) = g_S}| ],   S ⊂ {1..n}, |S| = k

  with `cₐ(S)` the votes of answer `a` in S and `g_S` those of gold; a tie of m answers is broken at random,
  so it earns 1/m. The expectation over S is exact. Ids are any non-negative integers, equal for equivalent
  answers; `NO_ANSWER` (-1) takes a place in S and has no vote, so it never wins: where no drawn sample has an
  answer the score is 0. Errors: ValueError unless 1 ≤ k ≤ n and every gold ≥ 0. Source: this project.
  """
  answers, gold = np.asarray(answers), np.asarray(gold)
  _check_k(k, answers.shape[1], "maj_at_k")
  if (gold < 0).any():
    row = int(np.argmax(gold < 0))
    raise ValueError(f"maj_at_k: gold[{row}] = {gold[row]}; a gold id is ≥ 0, {NO_ANSWER} means no answer")
  return np.asarray([_majority_wins(row, g, k) for row, g in zip(answers, gold)], np.float64)


def _majority_wins(answers: Integer[np.ndarray, " n"], gold: np.integer, k: int) -> float:
  """`maj_at_k` of one problem, by a generating function.

    maj@k = Σⱼ C(g, j) · ∫₀¹ [xᵏ⁻ʲ] (1+x)ᵘ ∏ₐ (Σ_{i<j} C(cₐ, i) xⁱ + y C(cₐ, j) xʲ) dy / C(n, k)

  with j the votes for gold, u the samples without an answer, a the other answers: y counts ties and
  ∫₀¹ yᵐ dy = 1/(m+1). Gauss-Legendre nodes make the integral exact.
  """
  voted = answers[answers != NO_ANSWER]
  counts = np.unique(voted[voted != gold], return_counts=True)[1]
  unanswered, hits = answers.size - voted.size, int((voted == gold).sum())
  if hits == 0:
    return 0.0
  votes = np.arange(1, min(hits, k) + 1)  # j
  nodes, node_weights = np.polynomial.legendre.leggauss(k // 2 + 1)
  ties = (nodes + 1) / 2  # y

  polynomial = np.zeros((votes.size, ties.size, k + 1))  # over j, y, and the power of x
  no_answer = _binomials(unanswered, k)
  polynomial[:, :, : no_answer.size] = no_answer[None, None]
  for count in counts:
    product = np.zeros_like(polynomial)
    for i, ways in enumerate(_binomials(int(count), k)):
      weight = np.less(i, votes)[:, None] + np.equal(i, votes)[:, None] * ties[None]
      product[:, :, i:] += ways * weight[:, :, None] * polynomial[:, :, : k + 1 - i]
    polynomial = product

  others = polynomial[np.arange(votes.size), :, k - votes] @ node_weights / 2
  return float(_binomials(hits, k)[votes] @ others / _binomials(answers.size, k)[k])


def _binomials(n: int, most: int) -> Float[np.ndarray, " terms"]:
  """C(n, i) for i = 0 … min(n, most)."""
  i = np.arange(1, min(n, most) + 1)
  return np.concatenate([np.ones(1), np.cumprod((n - i + 1) / i)])
