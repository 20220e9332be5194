#!/usr/bin/env bash
# Starts the same command on every host, in a tmux session that outlives the connection.
#
#   NAME=jaxrl tpu_setup/launch.sh [--dry-run] --config configs/quickstart.py --workdir runs/quickstart
#   NAME=jaxrl tpu_setup/launch.sh --log      what the first host printed
#   NAME=jaxrl tpu_setup/launch.sh --stop     ends the run; a restart resumes from the newest checkpoint
#   NAME=jaxrl tpu_setup/launch.sh --delete   gives the machines back
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

case "${ARGUMENTS[0]:-}" in
  "")
    sed -n '2,8s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2
    exit 2
    ;;
  --log)
    run gcloud compute tpus tpu-vm ssh "$NAME" --zone "$ZONE" --worker 0 --command "tail -n 40 -f train.log"
    ;;
  --stop)
    on_every_host "tmux kill-session -t train"
    ;;
  --delete)
    run gcloud compute tpus queued-resources delete "$NAME" --zone "$ZONE" --force
    ;;
  *)
    printf -v flags ' %q' "${ARGUMENTS[@]}"
    job="cd jaxrl_reason && ../venv/bin/python -m jaxrl_reason.train$flags 2>&1 | tee -a ../train.log"
    printf -v quoted '%q' "$job"
    on_every_host "tmux new-session -d -s train $quoted"
    ;;
esac
