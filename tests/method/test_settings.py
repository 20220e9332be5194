"""Bad config fields: each error names the field, its value, what is allowed, and the nearest name."""

import math

import pytest
from ml_collections import ConfigDict

from jaxrl_reason.settings import Reads, settings_from

BAD = [
  ({"batch": {"promts": 3}}, r"config\.batch\.promts.*did you mean 'prompts'"),
  ({"optimzer": {}}, r"config\.optimzer.*did you mean 'optimizer'"),
  ({"batch": {"group": 0}}, r"config\.batch\.group=0; allowed: an integer >= 1"),
  ({"sampling": {"temperature": 0.0}}, r"config\.sampling\.temperature=0\.0"),
  ({"sampling": {"top_p": 1.5}}, r"config\.sampling\.top_p=1\.5; allowed: 0 < top_p <= 1"),
  ({"sampling": {"min_p": 1.0}}, r"config\.sampling\.min_p=1\.0"),
  ({"optimizer": {"learning_rate": math.nan}}, r"config\.optimizer\.learning_rate=nan"),
  ({"optimizer": {"b1": 1.0}}, r"config\.optimizer\.b1=1\.0"),
  ({"optimizer": {"clip_norm": 0.0}}, r"config\.optimizer\.clip_norm=0\.0"),
  ({"eval": {"split": "tset"}}, r"config\.eval\.split='tset'.*did you mean 'test'"),
  ({"truncated": "zeros"}, r"config\.truncated='zeros'.*did you mean 'zero'"),
  ({"seed": -1}, r"config\.seed=-1"),
  ({"steps": -1}, r"config\.steps=-1"),
  ({"checkpoint": {"keep": 0}}, r"config\.checkpoint\.keep=0"),
  ({"model": "scratch"}, r"config\.model='scratch' with architecture=None"),
  (
    {"updates": {"minibatches": 3}, "batch": {"prompts": 8}},
    r"minibatches=3 does not divide batch\.prompts=8",
  ),
]


@pytest.mark.parametrize(
  ("given", "message"), BAD, ids=[next(iter(b[0])) + str(i) for i, b in enumerate(BAD)]
)
def test_bad_field(given, message):
  with pytest.raises(ValueError, match=message):
    settings_from(ConfigDict({"task": {"name": "arithmetic"}, **given}), set())


def test_task_is_required():
  with pytest.raises(ValueError, match=r"config\.task is missing"):
    settings_from(ConfigDict({"seed": 0}), set())


def test_a_field_that_the_method_reads_is_known_and_one_that_nobody_reads_is_not():
  config = ConfigDict({"task": {"name": "x"}, "clip": 0.2, "rho": 0.1})
  reads = Reads(config)
  assert reads.clip == 0.2
  with pytest.raises(ValueError, match=r"config\.rho: nothing reads this field"):
    settings_from(config, reads.read)
  assert reads["rho"] == 0.1
  assert settings_from(config, reads.read).seed == 0


def test_reading_a_missing_field_names_the_nearest():
  with pytest.raises(AttributeError, match=r"config\.clp.*did you mean 'clip'"):
    _ = Reads(ConfigDict({"clip": 0.2})).clp


def test_sections_become_typed_values():
  settings = settings_from(ConfigDict({"task": {}, "updates": {"epochs": 2, "minibatches": 4}}), set())
  assert settings.updates_per_batch == 8
  assert settings.batch.prompts == 32
