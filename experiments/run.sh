#!/bin/sh
# All runs of the standard size, cheap and informative figures first; run it again to continue after an interruption.
# It must run in a checkout whose package is the one that is installed, so that results name their commit.
# usage: experiments/run.sh [FOLDER] (default: experiments/results); PYTHON names the interpreter
out=${1:-experiments/results}
export OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1
reproduce() { "${PYTHON:-python3}" -m interlace reproduce "$@" --out "$out" --threads 1; }
# A figure goes on after a fit that failed. Tuning must be complete before the figures that use it.
tune() { reproduce tune --only "$1" || exit 1; }
tune synthetic2
reproduce synthetic-pq
reproduce synthetic-cq
tune mnist
reproduce real-sq
reproduce text
reproduce ablation --only synthetic2
reproduce unseen
reproduce codes
reproduce ablation
reproduce published --only mnist --only mnist-kernel
tune cifar10-alexnet
reproduce effective
reproduce pqn
reproduce published
