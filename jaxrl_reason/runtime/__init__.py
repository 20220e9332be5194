"""What runs around the mathematics: mesh, checkpoints, metrics, progress, reports and compile counts."""

from jaxrl_reason.runtime.cache import enable_compilation_cache as enable_compilation_cache
from jaxrl_reason.runtime.cache import quiet_logs as quiet_logs
from jaxrl_reason.runtime.checkpoint import CheckpointMismatch as CheckpointMismatch
from jaxrl_reason.runtime.checkpoint import Checkpoints as Checkpoints
from jaxrl_reason.runtime.checkpoint import Restored as Restored
from jaxrl_reason.runtime.compile_count import CompileCounter as CompileCounter
from jaxrl_reason.runtime.display import Display as Display
from jaxrl_reason.runtime.display import PhaseTimer as PhaseTimer
from jaxrl_reason.runtime.display import before_after_table as before_after_table
from jaxrl_reason.runtime.display import summary_table as summary_table
from jaxrl_reason.runtime.mesh import batch_multiple as batch_multiple
from jaxrl_reason.runtime.mesh import batch_sharding as batch_sharding
from jaxrl_reason.runtime.mesh import make_mesh as make_mesh
from jaxrl_reason.runtime.mesh import pad_rows as pad_rows
from jaxrl_reason.runtime.mesh import param_shardings as param_shardings
from jaxrl_reason.runtime.mesh import real_rows as real_rows
from jaxrl_reason.runtime.mesh import replicated as replicated
from jaxrl_reason.runtime.metrics import MetricsWriter as MetricsWriter
from jaxrl_reason.runtime.metrics import finalise as finalise
from jaxrl_reason.runtime.metrics import merge as merge
from jaxrl_reason.runtime.metrics import read_rows as read_rows
from jaxrl_reason.runtime.metrics import reduce_stacked as reduce_stacked
from jaxrl_reason.runtime.report import learning_curve as learning_curve
from jaxrl_reason.runtime.report import samples_text as samples_text
from jaxrl_reason.runtime.rollout_table import rollout_table as rollout_table
