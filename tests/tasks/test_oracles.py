"""Each generator against an oracle that shares no code with it: enumeration, own loops, worked examples."""

import itertools
import re
import unicodedata
from fractions import Fraction

import pytest

from jaxrl_reason import tasks
from jaxrl_reason.tasks.arithmetic import sum_columns
from jaxrl_reason.tasks.number_words import NAMES

SPLITS = ("train", "validation", "test")


def few(task, count=6):
  return [task.problem(split, index) for split in SPLITS for index in range(count)]


# --- arithmetic


def test_worked_example_of_column_addition():
  assert sum_columns([59, 63]) == "93012;56112"
  assert sum_columns([7, 105, 98]) == "758020;009211;010102"


@pytest.mark.parametrize("operators", ["+", "-", "*", "+-*"])
def test_arithmetic_equals_python(operators):
  """Values by Python's own precedence, and every `a∘b:work=c` step of the solution holds."""
  for problem in few(tasks.Arithmetic(terms=4, digits=2, operators=operators)):
    assert int(problem.answer) == eval(problem.prompt[:-1])
    for left, op, right, value in re.findall(r"(-?\d+)([-+*])(-?\d+):[^=]*=(-?\d+)", problem.solution):
      assert eval(f"({left}){op}({right})") == int(value)


def test_columns_spell_the_sum_and_the_difference():
  for problem in few(tasks.Arithmetic(terms=3, digits=4)):
    columns = problem.solution.partition(">")[0].split(";")
    digits = "".join(column[-1] for column in columns)[::-1]
    carry = columns[-1][-2].strip("0")
    assert carry + digits == problem.answer
    for right, left in itertools.pairwise(columns):
      assert left[3] == right[-2]  # the carry in is the carry out
      assert sum(map(int, left[:4])) == int(left[4:])
  for problem in few(tasks.Arithmetic(operators="-")):
    work = problem.solution.partition(":")[2].partition("=")[0].split(";")
    assert int("".join(column[-1] for column in work)[::-1]) == abs(int(problem.answer))


# --- countdown


def reachable(numbers, target):
  """Whether any expression over all the numbers hits the target: brute force on exact values."""
  if len(numbers) == 1:
    return numbers[0] == target
  for i, j in itertools.permutations(range(len(numbers)), 2):
    rest = [n for k, n in enumerate(numbers) if k not in (i, j)]
    a, b = numbers[i], numbers[j]
    values = [a + b, a - b, a * b] + ([a / b] if b else [])
    if any(reachable([*rest, value], target) for value in values):
      return True
  return False


def test_countdown_is_solvable_and_knows_it():
  for problem in few(tasks.Countdown(), 8):
    numbers = [Fraction(n) for n in problem.fields["numbers"]]
    assert reachable(numbers, problem.fields["target"])
    assert problem.prompt == f"make {problem.fields['target']} of {' '.join(map(str, numbers))}="


def test_countdown_takes_any_valid_expression_and_no_other():
  task = tasks.Countdown()
  problem = task.problem("train", 0)
  problem = type(problem)(0, "make 36 of 3 5 7=", "3*(5+7)", fields={"numbers": (3, 5, 7), "target": 36})
  for right in ("3*(5+7)", "(7+5)*3", " ( 5 + 7 ) * 3", "3*(7+5)"):
    assert task.accepts(problem, right), right
  for wrong in (
    "36",
    "3*12",
    "3*5+3*7",
    "5+7*3",
    "3*(5+7)=36",
    "3*(5+7",
    "3**5",
    "",
    "3*(5+7)+0",
    "__import__('os')",
  ):
    assert not task.accepts(problem, wrong), wrong
  thirds = type(problem)(
    0, "make 24 of 1 3 4 6=", "6/(1-3/4)", fields={"numbers": (1, 3, 4, 6), "target": 24}
  )
  assert task.accepts(thirds, "6/(1-3/4)")  # exact rationals on the way
  assert not task.accepts(thirds, "6/(1-4/4)+3")  # division by zero is an answer like any other: wrong


# --- sudoku


def all_sudokus():
  """The 288 grids: rows are permutations, columns and boxes hold four digits each."""
  rows = ["".join(p) for p in itertools.permutations("1234")]
  for a, b, c, d in itertools.product(rows, repeat=4):
    if any(len({a[i], b[i]}) < 2 for i in range(4)) or len({*a[:2], *b[:2]}) < 4:
      continue
    if all(len({a[i], b[i], c[i], d[i]}) == 4 for i in range(4)) and len({*c[:2], *d[:2]}) == 4:
      yield a + b + c + d


@pytest.fixture(scope="module")
def grids():
  return list(all_sudokus())


@pytest.mark.parametrize("blanks", [4, 10])
def test_sudoku_has_exactly_the_stated_solution(grids, blanks):
  assert len(grids) == 288
  for problem in few(tasks.Sudoku(blanks=blanks), 8):
    grid = problem.prompt.removeprefix("sudoku ").removesuffix("=").replace("/", "")
    assert grid.count(".") == blanks
    fits = [full for full in grids if all(g in (".", f) for g, f in zip(grid, full))]
    assert fits == [problem.answer.replace("/", "")]
    for step in problem.solution.partition(">")[0].split(";"):
      row, column, digit = step
      assert problem.answer.split("/")[int(row) - 1][int(column) - 1] == digit


# --- maze


def walk(rows, moves):
  """The cell where moves end, None if they leave the free cells."""
  r, c = next((r, c) for r, row in enumerate(rows) for c, x in enumerate(row) if x == "S")
  for move in moves:
    r, c = {"U": (r - 1, c), "D": (r + 1, c), "L": (r, c - 1), "R": (r, c + 1)}[move]
    if not (0 <= r < len(rows) and 0 <= c < len(rows) and rows[r][c] != "#"):
      return None
  return rows[r][c]


def test_maze_answers_are_judged_by_walking():
  """All paths of up to five moves, walked by own loops: accepted exactly where they end on G."""
  task, strict = tasks.Maze(), tasks.Maze(shortest=True)
  for problem in few(task, 1):
    rows = problem.prompt.removeprefix("maze ").removesuffix("=").split("/")
    hits = set()
    for length in range(6):
      for moves in map("".join, itertools.product("UDLR", repeat=length)):
        reached = walk(rows, moves) == "G"
        assert task.accepts(problem, moves) == reached
        hits |= {moves} if reached else set()
    assert not task.accepts(problem, "RX")
    assert not task.accepts(problem, "r")
    least = min(map(len, hits), default=None)
    if least is not None:
      assert len(problem.answer) == least
      assert {m for m in hits if strict.accepts(problem, m)} == {m for m in hits if len(m) == least}


# --- graphs


def closure(edges, start):
  """Distances by relaxing every edge until nothing changes."""
  far = {start: 0}
  for _ in range(30):
    for a, b in [tuple(e) for e in edges] + [tuple(e[::-1]) for e in edges]:
      if a in far and far[a] + 1 < far.get(b, 99):
        far[b] = far[a] + 1
  return far


def test_shortest_path_and_connectivity_against_relaxation():
  for problem in few(tasks.ShortestPath()):
    edges, _, ends = problem.prompt.removeprefix("path ").removesuffix("=").partition(";")
    assert closure(edges.split(), ends[0])[ends[1]] == int(problem.answer)
    assert len(set(map(frozenset, edges.split()))) == 7
  answers = []
  for problem in few(tasks.Connectivity(), 40):
    edges, _, ends = problem.prompt.removeprefix("link ").removesuffix("=").partition(";")
    assert (ends[1] in closure(edges.split(), ends[0])) == (problem.answer == "yes")
    answers.append(problem.answer)
  assert 0.35 < answers.count("yes") / len(answers) < 0.65


# --- counting, walks, knights


def test_counting_against_str_count():
  for problem in few(tasks.Counting(length=20)):
    word, letter, _, text = problem.prompt.removesuffix("=").split(" ")
    assert word == "count"
    assert int(problem.answer) == text.count(letter)


def test_walk_against_complex_numbers():
  for problem in few(tasks.Spatial(moves=9)):
    here, ahead = 0j, 1j
    for command in re.findall(r"F\d|L|R", problem.prompt):
      if command[0] == "F":
        here += ahead * int(command[1])
      else:
        ahead *= 1j if command == "L" else -1j
    heading = {1j: "N", 1 + 0j: "E", -1j: "S", -1 + 0j: "W"}[ahead]
    assert problem.answer == f"{int(here.real)},{int(here.imag)}{heading}"


@pytest.mark.parametrize("people", [2, 3])
def test_knights_have_one_reading_and_it_is_the_answer(people):
  """Statements turned into Python conditions and all readings tried."""
  for problem in few(tasks.Knights(people=people), 8):
    said = dict(
      part.split(":") for part in problem.prompt.removeprefix("knights ").removesuffix("=").split(" ")
    )
    readings = []
    for kinds in itertools.product([True, False], repeat=people):
      knight = dict(zip("ABC", kinds))
      if all(knight[who] == holds(what, knight) for who, what in said.items()):
        readings.append("".join(who + ("+" if knight[who] else "-") for who in said))
    assert readings == [problem.answer]


def holds(statement, knight):
  code = re.sub(r"([ABC])([+-])", lambda m: f"(knight['{m[1]}'] == {m[2] == '+'})", statement)
  code = re.sub(
    r"([ABC])([~!])([ABC])",
    lambda m: f"(knight['{m[1]}'] {'==' if m[2] == '~' else '!='} knight['{m[3]}'])",
    code,
  )
  return eval(code.replace("&", " and ").replace("/", " or "), {"knight": knight})


# --- number words


def test_number_words_are_complete_and_distinct():
  for language, names in NAMES.items():
    assert len(names) == 100 == len(set(names)), language
    assert all(unicodedata.is_normalized("NFC", name) and name == name.strip() for name in names)
  assert NAMES["en"][0] == "zero"
  assert NAMES["en"][40] == "forty"
  assert NAMES["en"][99] == "ninety-nine"
  assert [NAMES["hi"][n] for n in (0, 7, 19, 29, 45, 59, 79, 89, 99)] == (
    ["शून्य", "सात", "उन्नीस", "उनतीस", "पैंतालीस", "उनसठ", "उन्यासी", "नवासी", "निन्यानवे"]
  )
  assert [NAMES["mr"][n] for n in (0, 7, 19, 25, 39, 50, 64, 89, 99)] == (
    ["शून्य", "सात", "एकोणीस", "पंचवीस", "एकोणचाळीस", "पन्नास", "चौसष्ट", "एकोणनव्वद", "नव्व्याण्णव"]
  )


def test_number_words_have_the_patterns_of_their_language():
  """English composes; Hindi's and Marathi's nines but a few are 'one less' words of the next ten."""
  for n in range(21, 100):
    if n % 10:
      assert NAMES["en"][n] == f"{NAMES['en'][n - n % 10]}-{NAMES['en'][n % 10]}"
  for n in range(19, 99, 10):
    assert NAMES["mr"][n].startswith("एकोण")
  for n in range(29, 79, 10):
    assert NAMES["hi"][n].startswith("उन")


@pytest.mark.parametrize("language", ["en", "hi", "mr"])
def test_number_word_sums_are_right(language):
  value = {name: n for n, name in enumerate(NAMES[language])}
  for problem in few(tasks.NumberWords(languages=(language,))):
    _, left, joiner, right = problem.prompt.removesuffix("=").split(" ")
    sign = 1 if joiner in ("plus", "जमा", "अधिक") else -1
    assert value[problem.answer] == value[left] + sign * value[right]
