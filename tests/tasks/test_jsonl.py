"""The user's own JSONL: fields, splits, bad lines, golds and grading."""

import json

import pytest

from jaxrl_reason.tasks import jsonl

# The shape of grade-school data sets, written for this test.
ROWS = (
  (
    "Asha has 3 jars of 12 plums and eats 2. How many are left?",
    "3*12=<<3*12=36>>36\n36-2=<<36-2=34>>34\n#### 34",
  ),
  ("A shop sells 1,000 pens and 234 caps. How many things?", "1000+234=1234\n#### 1,234"),
  ("Half of 37 litres is how many litres?", "37/2=18.5\n#### 18.5"),
  ("Ravi owes 7 coins and has 3. How rich is he?", "3-7=-4\n#### -4"),
)


def write(path, rows):
  path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
  return str(path)


@pytest.fixture
def rows():
  return [{"question": q, "answer": a, "level": i} for i, (q, a) in enumerate(ROWS)]


@pytest.fixture
def task(tmp_path, rows):
  return jsonl({"train": write(tmp_path / "train.jsonl", rows)})


def test_every_gold_grades_itself_correct(task):
  for index in range(task.size("train")):
    problem = task.problem("train", index)
    assert task.grade(problem, problem.solution) == (1.0, "correct")
    assert task.grade(problem, task.direct(problem)) == (1.0, "correct")
  assert [task.problem("train", i).answer for i in range(4)] == ["34", "1,234", "18.5", "-4"]


def test_verdicts(task):
  problem = task.problem("train", 1)
  for right in (
    "#### 1234",
    "#### $1,234.00",
    r"so \boxed{1234}",
    "The answer is 1,234.",
    "Answer: 1234",
    "x>1234",
  ):
    assert task.grade(problem, right) == (1.0, "correct"), right
  for wrong in (
    "#### 123",
    "#### 12345",
    "#### 1234 or 5",
    r"\boxed{1234}\boxed{7}",
    "The answer is 34.",
    ">4",
  ):
    assert task.grade(problem, wrong) == (0.0, "wrong"), wrong


@pytest.mark.case(38)
def test_case_38_a_bare_list_of_guesses_earns_nothing(task):
  """Case 38: no box, no answer line, no marker: a format miss, though the gold stands in the text."""
  for index, guesses in enumerate(("I considered 33, 34 and 35.", "1,234", "18.5\n18.6", "-4 -5 -6")):
    assert task.grade(task.problem("train", index), guesses) == (0.0, "format")


@pytest.mark.case(37)
def test_case_37_an_answer_far_from_the_end_is_found(task):
  """Case 37: no window on the tail."""
  problem = task.problem("train", 0)
  for answer in ("#### 34\n", "The answer is 34. ", r"\boxed{34} "):
    assert task.grade(problem, answer + "and so it goes on " * 400) == (1.0, "correct")


@pytest.mark.case(31)
def test_case_31_every_field_reaches_the_problem(task, rows):
  """Case 31: what stands in the row stands in `fields`."""
  assert [dict(task.problem("train", i).fields) for i in range(4)] == rows


@pytest.mark.case(31)
def test_case_31_a_missing_field_fails_at_start_with_the_list_of_fields(tmp_path):
  """Case 31: file, line, field, the fields that are there, and the nearest of them."""
  path = write(tmp_path / "a.jsonl", [{"question": "1+1?", "answr": "2", "id": 7}])
  with pytest.raises(
    ValueError, match=r"a.jsonl:1: field 'answer' is missing.*answr, id, question; did you mean 'answr'"
  ):
    jsonl(path)
  assert jsonl(path, answer="answr").size("train") is not None


@pytest.mark.parametrize(
  ("line", "message"),
  [
    ('{"question": "q"', "broken JSON"),
    ("[1, 2]", "holds a list"),
    ('{"question": "", "answer": "1"}', "field 'question' is ''"),
    ('{"question": "q", "answer": "work\\n####  "}', "field 'answer' is"),
    ('{"question": "q", "answer": null}', "field 'answer' is None"),
    ('{"question": "q", "answer": ["1"]}', "field 'answer' is"),
    (b'{"question": "\xff", "answer": "1"}', "broken JSON"),
  ],
)
def test_bad_lines_stop_or_are_counted(tmp_path, line, message, caplog):
  path = tmp_path / "b.jsonl"
  line = line if isinstance(line, bytes) else line.encode()
  path.write_bytes(b'{"question": "1+1?", "answer": 2}\n\n' + line + b"\n")
  with pytest.raises(ValueError, match=rf"b.jsonl:3: .*{message}"):
    jsonl({"train": str(path)})
  task = jsonl({"train": str(path)}, on_bad="skip")
  assert (task.size("train"), task.skipped) == (1, 1)
  assert "skipped 1 bad lines" in caplog.text
  path.write_bytes(line)
  with pytest.raises(ValueError, match=r"holds no problem; first bad line"):
    jsonl({"train": str(path)}, on_bad="skip")


def test_empty_file_is_an_error(tmp_path):
  (tmp_path / "c.jsonl").write_text("\n")
  with pytest.raises(ValueError, match=r"c.jsonl holds no problem"):
    jsonl(str(tmp_path / "c.jsonl"))


@pytest.mark.case(42)
def test_case_42_one_file_is_split_by_content(tmp_path):
  """Case 42: 8:1:1, disjoint, duplicates together, and independent of the order of the lines."""
  rows = [{"question": f"{i % 400}+1?", "answer": str(i % 400 + 1)} for i in range(500)]
  forward = jsonl(write(tmp_path / "d.jsonl", rows))
  backward = jsonl(write(tmp_path / "e.jsonl", rows[::-1]))
  content = {}
  for split in ("train", "validation", "test"):
    problems = [forward.problem(split, i) for i in range(forward.size(split))]
    content[split] = {forward.canonical(problem) for problem in problems}
    assert content[split] == {
      backward.problem(split, i).fields["question"] for i in range(backward.size(split))
    }
  assert sum(map(len, content.values())) == 400 == len(set().union(*content.values()))
  assert sum(forward.size(s) for s in content) == 500
  assert 280 < len(content["train"]) < 360


def test_files_for_splits_keep_their_order_and_tell_of_shared_questions(tmp_path, rows, caplog):
  train, test = write(tmp_path / "train.jsonl", rows[:3]), write(tmp_path / "test.jsonl", rows[2:])
  task = jsonl({"train": train, "test": test})
  assert [task.problem("test", i).answer for i in range(2)] == ["18.5", "-4"]
  assert "1 questions stand in more than one split" in caplog.text
  with pytest.raises(ValueError, match=r"no file was given for split 'validation'; allowed: test, train"):
    task.problem("validation", 0)
  with pytest.raises(IndexError, match=r"index is 2 in split 'test'; allowed: 0 to 1"):
    task.problem("test", 2)
  with pytest.raises(ValueError, match=r"split is 'tset'.*did you mean 'test'"):
    jsonl({"tset": test})


def test_problems_that_share_a_question_but_not_their_body_are_two(tmp_path):
  rows = [{"body": f"Mia has {n} figs.", "question": "How many figs?", "answer": n} for n in range(30)]
  path = write(tmp_path / "g.jsonl", rows)
  plain, full = jsonl({"train": path}), jsonl({"train": path}, template="{body} {question}\n")
  assert len({plain.problem("train", i).id for i in range(30)}) == 1
  assert len({full.problem("train", i).id for i in range(30)}) == 30
  worded = jsonl({"train": path}, template="Q: {body} {question}\nA: ")
  assert [worded.problem("train", i).id for i in range(30)] == [
    full.problem("train", i).id for i in range(30)
  ]
  with pytest.raises(ValueError, match=r"template is 'Solve it'; allowed: a text with a field"):
    jsonl(path, template="Solve it")


def test_template_takes_any_field(tmp_path, rows):
  path = write(tmp_path / "f.jsonl", [{**row, "problem": row["question"]} for row in rows])
  task = jsonl({"train": path}, question="problem", template="[{level}] {question}\nA:")
  assert task.problem("train", 2).prompt == f"[2] {ROWS[2][0]}\nA:"
  with pytest.raises(ValueError, match=r"asks for the field 'levle'.*did you mean 'level'"):
    jsonl({"train": path}, template="{levle}")
  with pytest.raises(ValueError, match=r"asks for the field ''"):
    jsonl({"train": path}, template="{}")
