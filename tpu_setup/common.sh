# shellcheck shell=bash
# Shared by the scripts of this folder: names from the environment, and --dry-run.
# Sourced, never run by itself.

# shellcheck disable=SC2034  # read by the scripts that source this file
NAME="${NAME:-jaxrl}"
ZONE="${ZONE:-us-central2-b}"
TYPE="${TYPE:-v4-8}"
RUNTIME="${RUNTIME:-tpu-ubuntu2204-base}"

DRY_RUN=false
ARGUMENTS=()
for argument in "$@"; do
  case "$argument" in
    --dry-run) DRY_RUN=true ;;
    *) ARGUMENTS+=("$argument") ;;
  esac
done

# run command...: prints the command so that it could be pasted, then runs it unless --dry-run was given.
run() {
  printf '%q ' "$@"
  printf '\n'
  if [[ "$DRY_RUN" == false ]]; then
    "$@"
  fi
}

# on_every_host "command": the command on all hosts of the slice (one on a single VM).
on_every_host() {
  run gcloud compute tpus tpu-vm ssh "$NAME" --zone "$ZONE" --worker all --command "$1"
}
