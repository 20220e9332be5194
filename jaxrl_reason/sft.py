"""Supervised fine-tuning: the same loop, on given completions instead of sampled ones.

python -m jaxrl_reason.sft --config configs/sft.py --workdir runs/sft
"""

from absl import app, flags
from ml_collections import config_flags

from jaxrl_reason import train as loop
from jaxrl_reason.testbed import load_config_module


def main(argv: list[str], values: flags.FlagValues = flags.FLAGS) -> None:
  if values.config is None:
    raise app.UsageError("--config is missing, for example --config configs/sft.py")
  make_method = load_config_module(config_flags.get_config_filename(values["config"])).method
  method, _ = loop.resolve(values.config, make_method)
  if method.demonstrations is None:
    raise app.UsageError("this config samples from the policy; allowed here: a method with demonstrations=")
  loop.main(argv, values)


if __name__ == "__main__":
  loop.define_flags()
  app.run(main)
