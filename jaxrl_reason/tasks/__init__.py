"""Tasks: problems by (split, index), and the verifiers that grade completions of them."""

from jaxrl_reason.tasks.arithmetic import Arithmetic
from jaxrl_reason.tasks.configure import TASKS, from_config
from jaxrl_reason.tasks.countdown import Countdown
from jaxrl_reason.tasks.counting import Counting
from jaxrl_reason.tasks.demonstrations import demonstrations
from jaxrl_reason.tasks.graph import Connectivity, ShortestPath
from jaxrl_reason.tasks.gym import ReasoningGym, reasoning_gym
from jaxrl_reason.tasks.jsonl import JsonLines, jsonl
from jaxrl_reason.tasks.knights import Knights
from jaxrl_reason.tasks.maze import Maze
from jaxrl_reason.tasks.mixture import Mixture, mixture
from jaxrl_reason.tasks.spatial import Spatial
from jaxrl_reason.tasks.stream import Stream, split_of
from jaxrl_reason.tasks.sudoku import Sudoku
from jaxrl_reason.tasks.verify import answer_arrays, exact_match
from jaxrl_reason.tasks.words import NumberWords

__all__ = [
  "TASKS",
  "Arithmetic",
  "Connectivity",
  "Countdown",
  "Counting",
  "JsonLines",
  "Knights",
  "Maze",
  "Mixture",
  "NumberWords",
  "ReasoningGym",
  "ShortestPath",
  "Spatial",
  "Stream",
  "Sudoku",
  "answer_arrays",
  "demonstrations",
  "exact_match",
  "from_config",
  "jsonl",
  "mixture",
  "reasoning_gym",
  "split_of",
]
