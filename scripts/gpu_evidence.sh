#!/usr/bin/env bash
# The runs that take a GPU, in pieces of a few minutes: full-size ListOps, Pathfinder, MNIST as 1,024 pixels and Path-X,
# S4 and Transformer, from scratch and after masked self-pretraining. See docs/long_runs.md.
#
#   RUNS=runs/gpu MINUTES=9 bash scripts/gpu_evidence.sh   one piece; the same line again goes on, until all is finished
#   bash scripts/gpu_evidence.sh --plan                    print the commands, run nothing
#   bash scripts/gpu_evidence.sh --throughput              minutes per epoch, beside the official figures
#   bash scripts/gpu_evidence.sh --tiny                    the entire way at toy size on a CPU, interrupted and carried
#
# TASKS, SEEDS, PRECISION (bf16 or fp32), RESULTS and PYTHON may be set, too. Exit status: 0 all is finished, 75 the
# piece is over (give the line again), 3 all is finished but MNIST, whose wheel is missing, 2 what the last line says.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

mode="${1:-}"
RUNS="${RUNS:-runs/gpu}"
[ "$mode" != --tiny ] || RUNS="$RUNS-tiny"
MINUTES="${MINUTES:-9}"
TASKS="${TASKS:-listops pathfinder smnist pathx}" # the order in which GPU time is spent
SEEDS="${SEEDS:-0}"
RESULTS="${RESULTS:-$RUNS/results}"
[ -n "${PYTHON:-}" ] || { PYTHON=python3 && [ ! -x .venv/bin/python ] || PYTHON="$PWD/.venv/bin/python"; }
export PYTHONPATH="$PWD/src${PYTHONPATH:+:$PYTHONPATH}" PYTHONUNBUFFERED=1 HF_HUB_OFFLINE=1

AGAIN=75 # "try again later" of sysexits.h
child=""

refuse() {
    echo "gpu_evidence: $1" >&2
    exit 2
}

# The budgets. The recipes' own, up to 200 epochs, are days on one GPU; these are meant for one that is fast (an H100)
# and there for an hour or two in all. The minutes are estimates from the official times per epoch, not measured:
# --throughput says what they are. Every phase has so many passes over the same examples for both architectures, warms
# up in a tenth of its steps, where the recipes' 2,000 and more would be most of them, and ends at a learning rate of
# zero. All else is the recipes'.
budget() {
    local epochs
    case "$1" in
    # S4: 3,000 steps of 128 (10 min), 24,000 of 16 (14), from scratch 7,680 of 50 (10). Transformer: 12,000 steps of 32
    # in each phase (25 in all), in batches of similar length, which spares half of its positions; it has no batch norm
    # that could see the difference, and S4 has. S4's authors report 50% after 10 epochs.
    listops) epochs="4 4 --pretrain.transformer.train_sampling_strategy group_by_length --finetune.transformer.train_sampling_strategy group_by_length" ;;
    # S4: 20,000 steps of 8 (7 min), then and from scratch 7,500 of 64 (13 each). Transformer: 5,000 and 15,000 of 32
    # (10 in all). 4,000 of 20,000 pictures choose the checkpoint, ten times a run; all of the test split is scored.
    pathfinder) epochs="1 3 --data.num_validation_examples 4000" ;;
    # S4, the size of CIFAR: 6,252 steps of 32 (7 min), 3,128 of 64 (6), from scratch 4,000 of 50 (6). Transformer: 5.
    smnist) epochs="4 4 --data.num_validation_examples 2000" ;;
    # 20,000 pictures, an eighth. S4: 5,000 steps of 8 (9 min), 939 of 64 (14), from scratch 3,750 of 16 (14).
    # Transformer: 25 in all. S4's authors report 92% after 10 epochs of 160,000: this may end at chance.
    pathx) epochs="2 3 --data.train_examples 20000 --data.eval_examples 2000" ;;
    *) refuse "TASKS holds '$1': use listops, pathfinder, smnist and pathx." ;;
    esac
    local bf16=true
    [ "$PRECISION" != fp32 ] || bf16=false
    # shellcheck disable=SC2086
    set -- $epochs
    echo "--pretrain.num_train_epochs $1 --finetune.num_train_epochs $2 --pretrain.warmup_steps 0.1" \
        "--finetune.warmup_steps 0.1 --pretrain.lr_scheduler_type cosine --finetune.lr_scheduler_type cosine" \
        "--pretrain.bf16 $bf16 --finetune.bf16 $bf16 ${*:3}"
}

# Four steps, with dropout, whose state must survive, too; Path-X keeps its 16,384 pixels, so it has two of one picture.
toy_budget() {
    case "$1" in
    pathx)
        echo "--tiny --max_steps 2 --pretrain.global_batch_size 1 --finetune.global_batch_size 1" \
            "--model.transformer.attention_window 128 --data.num_validation_examples 2 --data.num_test_examples 2"
        ;;
    *) echo "--tiny --model.dropout 0.1" ;;
    esac
}

options_of() {
    local sizes
    if [ "$mode" = --tiny ]; then sizes="$(toy_budget "$1")"; else sizes="$(budget "$1")"; fi
    [ "$1" != smnist ] || [ "$mode" = --tiny ] || sizes="$sizes --data.size 32"
    echo "--task $1 --arch s4,transformer --inits scratch,spt-masked --seeds $SEEDS $sizes --output_dir $RUNS/$1"
}

longseq() {
    "$PYTHON" -m hf_longseq "$@"
}

# A comparison goes on in the precision that it began with, whatever the next GPU is capable of. What is finished needs
# no GPU any more.
choose_precision() {
    local kept="" fits
    [ ! -f "$RUNS/precision" ] || kept="$(cat "$RUNS/precision")"
    PRECISION="${PRECISION:-$kept}"
    case "$mode" in
    --plan) PRECISION="${PRECISION:-bf16}" && return ;;
    --tiny) PRECISION=fp32 ;;
    *)
        if [ -z "$PRECISION" ] || something_is_left; then
            fits="$(look_at_gpu)" || exit 2
            PRECISION="${PRECISION:-${fits%% *}}"
            [ "$PRECISION" = fp32 ] || [ "${fits%% *}" = bf16 ] ||
                refuse "the ${fits#* } has no bf16, in which $RUNS began: go on elsewhere, or give another RUNS."
        fi
        ;;
    esac
    [ -z "$kept" ] || [ "$kept" = "$PRECISION" ] ||
        refuse "the runs in $RUNS began in $kept: leave PRECISION out, or give another RUNS."
    mkdir -p "$RUNS"
    echo "$PRECISION" >"$RUNS/precision"
}

# The precision that suits the GPU, and its name; without one, a sentence and the end.
look_at_gpu() {
    "$PYTHON" - <<'PYTHON' || exit 2
import sys

try:
    import torch
    import hf_longseq
    import hf_longseq.comparison.execute
except ImportError as error:
    sys.exit(f"gpu_evidence: hf-longseq does not start with {sys.executable} ({error}): install it there, or set PYTHON.")
if not torch.cuda.is_available():
    sys.exit("gpu_evidence: there is no CUDA GPU here: run this where there is one, or try all of it with --tiny.")
fast = torch.cuda.is_bf16_supported(including_emulation=False)
print("bf16" if fast else "fp32", torch.cuda.get_device_name())
PYTHON
}

mnist_is_here() {
    "$PYTHON" -c 'from hf_longseq.data.smnist import find_source; find_source(None, None)' 2>"$RUNS/mnist.log" ||
        { tail -n 1 "$RUNS/mnist.log" | sed 's/^[A-Za-z_.]*Error: //; s/^/gpu_evidence: MNIST is left out: /' >&2 && false; }
}

# What was asked for, without the folder, which may be another one on the next machine.
fingerprint() {
    options_of "$1" | sed 's/ --output_dir .*//'
}

is_done() {
    [ -f "$RUNS/$1.done" ] && [ "$(cat "$RUNS/$1.done")" = "$(fingerprint "$1")" ]
}

something_is_left() {
    local task
    for task in $TASKS; do
        is_done "$task" || return 0
    done
    return 1
}

has_checkpoint() {
    compgen -G "$RUNS/*/runs/*/checkpoints/*/complete.json" >/dev/null
}

# Run one comparison until it ends or the piece is over. Its runs answer SIGTERM with a checkpoint.
compare_until() {
    local seconds="$1" task="$2" status=0 began=$SECONDS
    # shellcheck disable=SC2046
    timeout --signal=TERM --kill-after=45 "$seconds" "$PYTHON" -m hf_longseq compare $(options_of "$task") &
    child=$!
    trap 'interrupted=1 stopped=1; kill -TERM "$child" 2>/dev/null || true' INT TERM
    if [ "$mode" = --tiny ] && [ ! -f "$RUNS/interrupted" ]; then # the trial's first piece ends at its first checkpoint
        until has_checkpoint || ! kill -0 "$child" 2>/dev/null; do sleep 0.05; done
        touch "$RUNS/interrupted"
        kill -TERM "$child" 2>/dev/null && interrupted=1 || true
    fi
    wait "$child" || status=$?
    while kill -0 "$child" 2>/dev/null; do # a trapped signal ends `wait`, not the child
        status=0
        wait "$child" || status=$?
    done
    trap - INT TERM
    case "$status" in
    124 | 143 | 130) return $AGAIN ;;
    137) # killed by `timeout`, or by the system for want of memory, which the next piece would want, too
        [ $((SECONDS - began)) -lt "$seconds" ] || return $AGAIN
        refuse "$task was killed before its time was up, probably for want of memory: see the lines above."
        ;;
    0) [ -z "$interrupted" ] || return $AGAIN ;;
    esac
    return "$status"
}

# One piece: everything that is left, until the time is up.
piece() {
    local end=$((SECONDS + seconds)) status task missing=""
    interrupted=""
    for task in $TASKS; do
        if is_done "$task"; then
            continue
        elif [ "$task" = smnist ] && ! mnist_is_here; then
            missing=1
            continue
        elif [ $((end - SECONDS)) -lt 1 ]; then
            return $AGAIN
        fi
        status=0
        compare_until $((end - SECONDS)) "$task" || status=$?
        [ "$status" = 0 ] || return "$status"
        rm -rf "$RESULTS/gpu-$task"
        fingerprint "$task" >"$RUNS/$task.done"
    done
    for task in $TASKS; do
        ! is_done "$task" || [ -f "$RESULTS/gpu-$task/results.json" ] ||
            longseq report "$RUNS/$task" --collect_to "$RESULTS/gpu-$task" --name "$task ($size size)" || return 2
    done
    ! compgen -G "$RESULTS/gpu-*" >/dev/null || longseq report "$RESULTS"/gpu-* --output_dir "$RUNS/report" || return 2
    [ -z "$missing" ] || return 3
}

finish() {
    case "$1" in
    0) echo "gpu_evidence: everything is finished; the small results are in $RESULTS, the report in $RUNS/report." ;;
    3) echo "gpu_evidence: everything but MNIST is finished; the small results are in $RESULTS." ;;
    "$AGAIN") echo "gpu_evidence: this piece is over; give the same line again to go on." ;;
    esac
    exit "$1"
}

# The trial: the first piece ends at the first checkpoint, its state is carried, and the rest goes on from there.
try_it_out() {
    local status=0
    piece || status=$?
    while [ "$status" = "$AGAIN" ] && [ -z "$stopped" ]; do
        if compgen -G "$RUNS/*/plan.json" >/dev/null; then # else it was over before anything began
            rm -rf "$RUNS-carried"
            "$PYTHON" scripts/carry_runs.py pack "$RUNS" "$RUNS-carried"
            rm -rf "$RUNS"
            "$PYTHON" scripts/carry_runs.py unpack "$RUNS-carried" "$RUNS"
            echo "gpu_evidence: that piece is over; going on from what was carried"
        fi
        status=0
        piece || status=$?
    done
    finish "$status"
}

# A wrong value is refused before anything is written.
seconds=0
[[ ! "$MINUTES" =~ ^[0-9]+([.][0-9]+)?$ ]] || seconds="$(awk -v minutes="$MINUTES" 'BEGIN { print int(60 * minutes) }')"
[ "$seconds" -ge 1 ] || refuse "MINUTES is '$MINUTES': give a number of minutes above 0, as 9 or 4.5."
[[ "${PRECISION:-bf16}" =~ ^(bf16|fp32)$ ]] || refuse "PRECISION is '$PRECISION': use bf16 or fp32, or leave it out."
[[ ! "$RUNS" =~ [[:space:]] ]] || refuse "RUNS is '$RUNS': name a folder without spaces."
for task in $TASKS; do
    PRECISION=fp32 budget "$task" >/dev/null
done
command -v timeout >/dev/null || refuse "the command timeout is missing, which ends a piece: install GNU coreutils."
size=full stopped=""
case "$mode" in
"")
    choose_precision
    status=0
    piece || status=$?
    finish "$status"
    ;;
--tiny)
    size=toy
    choose_precision
    try_it_out
    ;;
--plan)
    choose_precision
    for task in $TASKS; do
        echo "hf-longseq compare $(options_of "$task")"
    done
    ;;
--throughput)
    gpu="$(look_at_gpu)" || exit 2
    echo "${gpu#* }: S4 beside the times of its authors, who name a T4 for ListOps and an A100 for the others"
    mkdir -p "$RUNS"
    longseq benchmark train --device cuda --recipe {listops,image,pathfinder,pathx}/s4 \
        {listops,image,pathfinder,pathx}/transformer | tee "$RUNS/throughput-$(date +%Y%m%dT%H%M%S).txt"
    ;;
*) refuse "there is no option $mode: see the first lines of this script." ;;
esac
