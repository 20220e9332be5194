"""Draws the seven slots of a method as an SVG.

python experiments/figures/slots.py  # writes experiments/figures/slots.svg
"""

import pathlib

SLOTS = [
  ("prompts", "which problems", "uniform"),
  ("reward", "what is verified", "verified, format_ok"),
  ("credit", "who earned it", "center, scale, leave-one-out"),
  ("ratio", "how far off policy", "token"),
  ("surrogate", "what is minimised", "clip, importance weighted"),
  ("penalties", "what is held back", "kl, kl_k3"),
  ("aggregate", "how tokens weigh", "token, sequence, constant"),
]
OTHERS = ["policy", "sampling rules", "signals", "optimizer", "schedule"]
WIDTH, HEIGHT, BOX, GAP, TOP = 1120, 250, 144, 14, 58


def box(index: int, name: str, what: str, parts: str) -> str:
  x = 20 + index * (BOX + GAP)
  policy_gradient = index >= 3
  fill = "#e8f0fb" if policy_gradient else "#eef6ee"
  stroke = "#3b6fb6" if policy_gradient else "#3c7d46"
  arrow = (
    ""
    if index == 0
    else (
      f'<path d="M{x - GAP + 1} {TOP + 38} L{x - 2} {TOP + 38}" stroke="#666" stroke-width="2" '
      'marker-end="url(#a)"/>'
    )
  )
  return (
    f'{arrow}<rect x="{x}" y="{TOP}" width="{BOX}" height="76" rx="8" fill="{fill}" stroke="{stroke}"/>'
    f'<text x="{x + BOX / 2}" y="{TOP + 24}" class="n">{name}</text>'
    f'<text x="{x + BOX / 2}" y="{TOP + 43}" class="w">{what}</text>'
    f'<text x="{x + BOX / 2}" y="{TOP + 63}" class="p">{parts}</text>'
  )


def svg() -> str:
  boxes = "".join(box(i, *slot) for i, slot in enumerate(SLOTS))
  left = 20 + 3 * (BOX + GAP)
  others = "   ·   ".join(OTHERS)
  return f"""<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}"
 font-family="Helvetica, sans-serif">
<style>.n{{font-size:16px;font-weight:bold;fill:#1a1a1a;text-anchor:middle}}
.w{{font-size:12px;fill:#333;text-anchor:middle}}
.p{{font-size:9.5px;fill:#555;text-anchor:middle}}.c{{font-size:13px;fill:#333;text-anchor:middle}}</style>
<defs><marker id="a" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="6" markerHeight="6" orient="auto">
<path d="M0 0 L8 4 L0 8 z" fill="#666"/></marker></defs>
<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>
<text x="{WIDTH / 2}" y="30" class="c">A method is seven small pure parts; one loop runs every method.</text>
{boxes}
<path d="M{left} {TOP + 88} v8 H{WIDTH - 14 - 10} v-8" fill="none" stroke="#3b6fb6"/>
<text x="{(left + WIDTH - 24) / 2}" y="{TOP + 114}"
 class="c">a policy-gradient objective, or another one</text>
<rect x="20" y="{TOP + 132}"
 width="{WIDTH - 44}" height="38" rx="8"
 fill="#f6f3ea" stroke="#a08a45"/>
<text x="{WIDTH / 2}" y="{TOP + 156}" class="c">from the testbed:   {others}</text>
</svg>
"""


if __name__ == "__main__":
  pathlib.Path(__file__).with_suffix(".svg").write_text(svg())
