"""The page of rollouts: escaped, grouped, coloured by credit, complete in itself."""

import html
import html.parser
import re

import numpy as np
import pytest

from jaxrl_reason.runtime.rollout_table import rollout_table


def row(**fields):
  base = {
    "prompt": "2+2?",
    "answer": "4",
    "tokens": ["It", " is", " 4"],
    "credit": [0.0, -0.5, 1.0],
    "logprobs": [-0.1, -2.0, -0.25],
    "completion": "It is 4",
    "reward": 1.0,
    "terms": {"exact": 1.0},
    "outcome": "correct",
    "length": 3,
    "truncated": False,
  }
  return base | fields


class Page(html.parser.HTMLParser):
  """Tags that are open in order, their text, and the attributes of every token."""

  void = ("meta",)

  def __init__(self, text):
    super().__init__()
    self.open, self.tokens, self.tags, self.text = [], [], [], ""
    self.feed(text)

  def handle_starttag(self, tag, attributes):
    self.tags.append(tag)
    if tag not in self.void:
      self.open.append(tag)
    if tag == "span" and "title" in dict(attributes):
      self.tokens.append([dict(attributes), ""])

  def handle_endtag(self, tag):
    assert self.open.pop() == tag

  def handle_data(self, data):
    self.text += data
    if self.tokens and self.open[-1:] == ["span"]:
      self.tokens[-1][1] += data


def page_of(tmp_path, rows):
  path = tmp_path / "rollouts.html"
  rollout_table(path, rows)
  text = path.read_text(encoding="utf-8")
  page = Page(text)
  assert page.open == []
  return text, page


def test_tokens_have_colour_by_sign_and_share_of_the_largest_credit(tmp_path):
  text, page = page_of(tmp_path, [row()])
  (plain, a), (down, b), (up, c) = page.tokens
  assert [a, b, c] == ["It", " is", " 4"]
  assert "class" not in plain
  assert (down["class"], down["style"]) == ("d", "--a:0.38")
  assert (up["class"], up["style"]) == ("u", "--a:0.75")
  assert up["title"] == "' 4'\nlogprob -0.25\ncredit +1"
  assert "<span>-1</span>" in text
  assert "<span>+1</span>" in text


def test_nothing_of_a_rollout_is_markup(tmp_path):
  evil = "<script>alert('x')</script>\"&amp;"
  _, page = page_of(
    tmp_path,
    [
      row(
        prompt=evil, answer=evil, outcome=evil, terms={evil: 1.0}, tokens=[evil, '"><img src=x>'],
        credit=[1.0, -1.0], logprobs=None,
      )
    ],
  )  # fmt: skip
  assert "script" not in page.tags
  assert "img" not in page.tags
  assert page.tokens[0][1] == evil
  assert page.tokens[1][1] == '"><img src=x>'
  assert page.tokens[0][0]["title"] == f"{evil!r}\ncredit +1"
  assert page.text.count(evil) >= 4


def test_rollouts_are_grouped_by_prompt_with_their_numbers(tmp_path):
  rows = [row(), row(outcome="wrong", reward=-0.25, truncated=True), row(prompt="3+3?", answer=None)]
  text, page = page_of(tmp_path, rows)
  assert page.tags.count("section") == 2
  assert page.tags.count("article") == 3
  assert "wrong · reward -0.25 (exact +1) · 3 tokens · truncated" in page.text
  assert page.text.count("Answer: 4") == 1
  assert "prefers-color-scheme: dark" in text
  assert not re.search(r"(src|href)=|https?://|@import|url\(", text)


def test_line_breaks_are_shown_and_kept(tmp_path):
  _, page = page_of(tmp_path, [row(tokens=["a\n", "\n", "b"])])
  assert [token[1] for token in page.tokens] == ["a⏎\n", "⏎\n", "b"]


@pytest.mark.parametrize("credit", [np.zeros(3), np.full(3, np.nan), np.array([0.0, np.inf, np.nan])])
def test_credit_of_zero_or_not_finite_has_no_colour(tmp_path, credit):
  _, page = page_of(tmp_path, [row(credit=credit, logprobs=np.zeros(3, np.float32))])
  assert len(page.tokens) == 3
  assert all("class" not in attributes for attributes, _ in page.tokens)


def test_empty_pages_and_empty_rollouts(tmp_path):
  assert page_of(tmp_path, [])[1].tokens == []
  assert page_of(tmp_path, [row(tokens=[], credit=[], logprobs=[])])[1].tokens == []


@pytest.mark.parametrize("change", [{"credit": [1.0]}, {"logprobs": [0.0] * 4}])
def test_lists_of_unequal_length_are_refused(tmp_path, change):
  with pytest.raises(ValueError, match=r"row 1 .*'tokens': 3"):
    rollout_table(tmp_path / "x.html", [row(), row(**change)])
