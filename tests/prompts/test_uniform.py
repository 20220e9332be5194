"""The uniform curriculum: every problem equally often, an order that seed and epoch alone decide."""

import dataclasses
import json

import pytest

from jaxrl_reason import prompts
from jaxrl_reason.prompts.uniform import order
from jaxrl_reason.types import Grade, Problem


@dataclasses.dataclass(frozen=True)
class Numbers:
  """A task of `n` problems; None for a stream without end."""

  n: int | None
  name: str = "numbers"

  def problem(self, split, index):
    return Problem(id=index, prompt=f"{index}", answer=f"{index}")

  def size(self, split):
    return self.n

  def direct(self, problem):
    return problem.answer

  def grade(self, problem, completion):
    return Grade(float(completion == problem.answer), "correct")


def draw(task, seed, sizes):
  curriculum = prompts.uniform()
  state, out = curriculum.init(seed), []
  for size in sizes:
    state, problems = curriculum.propose(state, task, size)
    out.append([p.id for p in problems])
  return out, state


def test_every_problem_once_in_an_epoch_across_ragged_batches():
  batches, _ = draw(Numbers(7), 3, [2, 3, 2, 4, 3])
  flat = sum(batches, [])
  assert sorted(flat[:7]) == list(range(7))
  assert sorted(flat[7:]) == list(range(7))
  assert flat[:7] != flat[7:]


def test_order_depends_on_the_seed_and_not_on_the_batch_size():
  assert sum(draw(Numbers(20), 0, [20])[0], []) == sum(draw(Numbers(20), 0, [3, 9, 8])[0], [])
  assert draw(Numbers(20), 0, [20])[0] != draw(Numbers(20), 1, [20])[0]


@pytest.mark.case(28)
@pytest.mark.parametrize("size", [11, None])
def test_case_28_a_saved_state_continues_the_same_order(size):
  whole, _ = draw(Numbers(size), 5, [4, 4, 4, 4])
  curriculum = prompts.uniform()
  _, state = draw(Numbers(size), 5, [4, 4])
  state = json.loads(json.dumps(state))
  state, third = curriculum.propose(state, Numbers(size), 4)
  assert [p.id for p in third] == whole[2]


def test_streams_of_two_seeds_do_not_meet():
  first = {order(0, i, None) for i in range(1000)}
  assert not first & {order(1, i, None) for i in range(1000)}


def test_an_empty_data_set_is_an_error_that_names_the_task():
  with pytest.raises(ValueError, match="'numbers': its train split is empty"):
    draw(Numbers(0), 0, [1])
