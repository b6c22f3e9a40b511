#!/usr/bin/env bash
# One training on several GPU hosts under Slurm: sbatch --nodes=4 deploy/slurm.sh CONFIG NAME [OPTION ...]
#
# The folder of runs ($RUNS, by default ./runs) lies on a file system that all hosts share. A job that meets its time
# limit or is preempted saves, queues itself again and goes on; so does one that lost a host.
#SBATCH --job-name=paddock
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=8
#SBATCH --cpus-per-task=32
#SBATCH --time=24:00:00
#SBATCH --signal=TERM@180
#SBATCH --requeue
#SBATCH --open-mode=append
set -euo pipefail
[ $# -ge 2 ] || { echo "usage: sbatch --nodes=N deploy/slurm.sh CONFIG NAME [OPTION ...]" >&2; exit 2; }
config=$1 name=$2 runs=${RUNS:-runs}
shift 2
starts=${SLURM_RESTART_COUNT:-0}

resume=()
[ -e "$runs/$name/config.yml" ] && resume=(--resume)
status=0
# --signal goes to the steps of the job; this script waits for them.
srun --kill-on-bad-exit=1 paddock train "$config" --name "$name" --runs "$runs" --hosts auto \
  --device gpu --devices "${SLURM_GPUS_ON_NODE:-8}" "${resume[@]}" "$@" || status=$?
# 130: a signal came and the run was saved. 1: a host was lost. Others are errors that would come again.
if { [ $status = 130 ] || [ $status = 1 ]; } && [ "$starts" -lt 20 ]; then
  scontrol requeue "$SLURM_JOB_ID"
fi
exit $status
