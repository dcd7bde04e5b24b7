#!/usr/bin/env bash
# The comparisons that take a GPU, each one command that goes on where it was stopped:
#   bash scripts/gpu_evidence.sh NAME [options of hf-longseq compare]     runs are kept below runs/gpu
#   bash scripts/gpu_evidence.sh --plan                                   prints the commands
# Budgets are a few epochs, where the recipes have 40 to 200; minutes are estimates for an H100. See docs/long_runs.md.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

compare() {
    local pretrain="$1" finetune="$2" name="$3"
    shift 3
    $run hf-longseq compare --inits scratch,scratch-tied@epochs,spt-masked --seeds 0 --output_dir "runs/gpu/$name" \
        --pretrain.num_train_epochs "$pretrain" --finetune.num_train_epochs "$finetune" \
        --pretrain.warmup_steps 0.1 --finetune.warmup_steps 0.1 --pretrain.bf16 true --finetune.bf16 true \
        --pretrain.lr_scheduler_type cosine --finetune.lr_scheduler_type cosine "$@"
}

# a cell of the paper's Table 1 (71.4 from scratch, 88.5 pretrained), about 27 minutes
run_pathfinder-transformer() { compare 2 5 "$name" --task pathfinder --arch transformer "$@"; }
# 4,000 of 20,000 pictures choose the checkpoint, about 30 minutes
run_pathfinder-s4() { compare 1 3 "$name" --task pathfinder --arch s4 --data.num_validation_examples 4000 "$@"; }
run_listops-s4() { compare 4 4 "$name" --task listops --arch s4 "$@"; }
# batches of similar length spare half of the positions; S4's batch norm would see the difference
run_listops-transformer() {
    compare 4 4 "$name" --task listops --arch transformer --pretrain.train_sampling_strategy group_by_length \
        --finetune.train_sampling_strategy group_by_length "$@"
}
run_smnist() {
    compare 4 4 "$name" --task smnist --data.size 32 --arch s4,transformer --data.num_validation_examples 2000 "$@"
}
# 20,000 pictures, an eighth; the authors of S4 report 92 % after 10 epochs of 160,000, so this may end at chance
run_pathx() {
    compare 2 3 "$name" --task pathx --arch s4,transformer --data.train_examples 20000 --data.eval_examples 2000 "$@"
}

names="$(declare -F | sed -n 's/^declare -f run_//p')"
if [ "${1:-}" = --plan ]; then
    run=echo
    for name in $names; do "run_$name"; done
    exit
fi
name="${1:-}"
if ! declare -F "run_$name" >/dev/null; then
    echo "Name a comparison: $(echo "$names" | paste -sd' ')" >&2
    exit 2
fi
shift
source scripts/install.sh
run="" PATH="$PWD/.venv/bin:$PATH"
"run_$name" "$@"
