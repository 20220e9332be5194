"""`python -m jaxrl_reason.sample`: the entry point in generate.py, under the name that people look for."""

from absl import app

from jaxrl_reason.generate import define_flags, main

if __name__ == "__main__":
  define_flags()
  app.run(main)
