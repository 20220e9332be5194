"""Writes the table of methods into README.md, from the configs.

python -m experiments.readme
"""

import importlib
import pathlib

from jaxrl_reason.settings import Reads

ROOT = pathlib.Path(__file__).parents[1]
START, END = "<!-- methods -->", "<!-- /methods -->"


def row(name: str) -> str:
  """One config: title of its docstring, credit, objective, needed signals."""
  module = importlib.import_module(f"configs.{name}")
  method = module.method(Reads(module.get_config()))
  title = (module.__doc__ or "").strip().splitlines()[0].rstrip(".")
  formulas = (f"`{method.credit.formula}`", f"`{method.objective.formula}`")
  cells = (f"[`{name}`](configs/{name}.py)", title, *formulas, ", ".join(method.needs()) or "—")
  return "| " + " | ".join(cells) + " |"


def table() -> str:
  names = sorted(p.stem for p in (ROOT / "configs").glob("*.py") if p.stem != "__init__")
  head = "| config | method | credit | minimises | signals |\n|---|---|---|---|---|"
  return "\n".join([head, *(row(name) for name in names)])


def with_table(text: str) -> str:
  before, _, rest = text.partition(START)
  _, _, after = rest.partition(END)
  return f"{before}{START}\n{table()}\n{END}{after}"


if __name__ == "__main__":
  path = ROOT / "README.md"
  path.write_text(with_table(path.read_text()))
