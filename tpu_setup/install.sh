#!/usr/bin/env bash
# Copies this working tree to every host and installs it with the TPU build of jax.
#
#   NAME=jaxrl ZONE=us-central2-b tpu_setup/install.sh [--dry-run]
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
cd "$(dirname "${BASH_SOURCE[0]}")/.."

archive="$(mktemp -d)/jaxrl_reason.tar.gz"
trap 'rm -rf "$(dirname "$archive")"' EXIT

run git archive --format tar.gz --output "$archive" HEAD
run gcloud compute tpus tpu-vm scp "$archive" "$NAME:jaxrl_reason.tar.gz" --zone "$ZONE" --worker all
on_every_host "sudo apt-get update -q && sudo apt-get install -y -q python3.11-venv
mkdir -p jaxrl_reason && tar -xzf jaxrl_reason.tar.gz -C jaxrl_reason
python3.11 -m venv venv
venv/bin/pip install --quiet --upgrade pip && venv/bin/pip install --quiet -e 'jaxrl_reason[tpu]'"
on_every_host "venv/bin/python -c 'import jax; jax.distributed.initialize(); print(jax.process_index(), jax.device_count())'"
