#!/usr/bin/env bash
# Asks for one TPU VM or a pod slice as a queued resource, and waits until it is there.
#
#   NAME=jaxrl ZONE=us-central2-b TYPE=v4-8 tpu_setup/create_tpu_vm.sh [--spot] [--dry-run]
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

options=()
for argument in "${ARGUMENTS[@]+"${ARGUMENTS[@]}"}"; do
  case "$argument" in
    --spot) options+=(--spot) ;;
    *)
      echo "unknown argument $argument; allowed: --spot --dry-run" >&2
      exit 2
      ;;
  esac
done

run gcloud compute tpus queued-resources create "$NAME" --node-id "$NAME" --zone "$ZONE" \
  --accelerator-type "$TYPE" --runtime-version "$RUNTIME" "${options[@]+"${options[@]}"}"

if [[ "$DRY_RUN" == true ]]; then
  echo "# then wait until the state is ACTIVE:"
  run gcloud compute tpus queued-resources describe "$NAME" --zone "$ZONE" --format "value(state.state)"
  exit
fi
while true; do
  state="$(gcloud compute tpus queued-resources describe "$NAME" --zone "$ZONE" --format 'value(state.state)')"
  echo "$(date +%T) $state"
  case "$state" in
    ACTIVE) break ;;
    FAILED | SUSPENDED) exit 1 ;;
  esac
  sleep 30
done
