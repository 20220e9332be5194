"""Rollouts as one HTML file, every token coloured by its credit: where a method says it learns."""

from __future__ import annotations

import html
import itertools
import math
import os
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

from jaxrl_reason.runtime.report import headline

_STYLE = """
:root { color-scheme: light dark; --ink: #22262b; --soft: #616a73; --page: #ffffff; --card: #f5f6f8;
  --line: #dde1e5; --up: 38, 118, 184; --down: 214, 106, 40; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6e8eb; --soft: #9aa3ac; --page: #15181b; --card: #1d2125; --line: #33393f;
    --up: 70, 150, 225; --down: 230, 120, 50; } }
body { margin: 2rem auto; max-width: 62rem; padding: 0 1rem; background: var(--page); color: var(--ink);
  font: 15px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.25rem; } h2 { font-size: .8rem; color: var(--soft); margin: 0 0 .3rem; font-weight: 600; }
section { margin: 2rem 0; border-top: 1px solid var(--line); padding-top: 1rem; }
pre, .tokens { font: 13px/1.7 ui-monospace, monospace; white-space: pre-wrap; overflow-wrap: anywhere;
  margin: 0; }
article { background: var(--card); border: 1px solid var(--line); border-radius: 6px; padding: .7rem .9rem;
  margin: .7rem 0; }
.head { color: var(--soft); font-size: .85rem; margin-bottom: .4rem; }
.head b { color: var(--ink); }
.legend { display: flex; align-items: center; gap: .6rem; color: var(--soft); font-size: .85rem; }
.scale { width: 14rem; height: .9rem; border-radius: 3px; border: 1px solid var(--line);
  background: linear-gradient(to right, rgba(var(--down), .75), transparent, rgba(var(--up), .75)); }
.u, .d { border-radius: 2px; }
.u { background: rgba(var(--up), var(--a)); } .d { background: rgba(var(--down), var(--a)); }
""".strip()

_STRONGEST = 0.75  # opacity of the largest credit, so that the text stays readable on it


def rollout_table(html_path: str | os.PathLike, rows: Sequence[Mapping[str, Any]]) -> None:
  """Writes a self-contained page: per prompt its rollouts, each token with the colour of its credit.

    opacity of a token = 0.75 · |credit| / max |credit| of the page,   blue: credit > 0, orange: credit < 0

  A row has `prompt`, `tokens` (text of each), `credit` and where known `logprobs` (nats) of the same length,
  and what `samples_text` shows. A token's title holds its text, log-probability and credit. Numbers that are
  not finite have no colour. Errors: ValueError for a row whose lists differ in length.
  """
  for number, row in enumerate(rows):
    _check_lengths(number, row)
  credit = [abs(float(c)) for row in rows for c in row["credit"] if math.isfinite(c)]
  top = max(credit, default=0.0)
  groups = [list(group) for _, group in itertools.groupby(rows, key=lambda row: row["prompt"])]
  body = "\n".join(_group(number, group, top) for number, group in enumerate(groups, 1))
  page = f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>Rollouts and credit</title><style>{_STYLE}</style></head><body>
<h1>Rollouts, coloured by the credit of each token</h1>
<div class="legend"><span>{-top:.3g}</span><div class="scale" role="img" aria-label="orange: negative credit,
 blue: positive credit"></div><span>{top:+.3g}</span><span>credit (orange: made less likely, blue: made more
 likely); point at a token for its numbers</span></div>
{body}
</body></html>
"""
  pathlib.Path(html_path).write_text(page, encoding="utf-8")


def _check_lengths(number: int, row: Mapping[str, Any]) -> None:
  sizes = {name: len(row[name]) for name in ("tokens", "credit", "logprobs") if row.get(name) is not None}
  if len(set(sizes.values())) != 1 or "tokens" not in sizes or "credit" not in sizes:
    raise ValueError(f"rollout_table: row {number} needs tokens and credit of one length; it has {sizes}")


def _group(number: int, rows: Sequence[Mapping[str, Any]], top: float) -> str:
  first = rows[0]
  answer = f"<h2>Answer: {html.escape(str(first['answer']))}</h2>" if first.get("answer") is not None else ""
  prompt = f"<h2>Prompt {number}</h2><pre>{html.escape(str(first['prompt']))}</pre>{answer}"
  return f"<section>{prompt}{''.join(_rollout(row, top) for row in rows)}</section>"


def _rollout(row: Mapping[str, Any], top: float) -> str:
  outcome, *rest = headline(row).split("  |  ")
  head = " · ".join([f"<b>{html.escape(outcome)}</b>", *map(html.escape, rest)])
  logprobs = row["logprobs"] if row.get("logprobs") is not None else itertools.repeat(None)
  tokens = "".join(_token(t, c, lp, top) for t, c, lp in zip(row["tokens"], row["credit"], logprobs))
  return f'<article><div class="head">{head}</div><div class="tokens">{tokens}</div></article>\n'


def _token(text: str, credit: Any, logprob: Any, top: float) -> str:
  """One token. Line breaks are shown as ⏎ and kept."""
  credit = float(credit)
  title = repr(text) + (f"\nlogprob {float(logprob):.4g}" if logprob is not None else "")
  title = html.escape(f"{title}\ncredit {credit:+.4g}", quote=True).replace("\n", "&#10;")
  shown = html.escape(text).replace("\n", "⏎\n")
  share = abs(credit) / top if top > 0 and math.isfinite(credit) else 0.0
  if share < 0.005:
    return f'<span title="{title}">{shown}</span>'
  side = "u" if credit > 0 else "d"
  return f'<span class="{side}" style="--a:{_STRONGEST * share:.2f}" title="{title}">{shown}</span>'
