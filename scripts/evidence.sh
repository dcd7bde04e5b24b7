#!/usr/bin/env bash
# The comparisons of results/ that take minutes to half an hour on two cores: bash scripts/evidence.sh NAME [options of
# hf-longseq compare]. Stopped and started again, each goes on where it was; runs are kept below runs/evidence.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

name="${1:-}"
three="transformer,s4,dlr"
four="transformer,transformer@position_embedding=sinusoidal,s4,dlr" # rotary is the recipes' choice
arms="scratch,spt-masked,spt-causal" # causal pretraining is fine-tuned in both directions

data() { "$PYTHON" docs/examples/get_data.py "$1" --out runs/examples; }
compare() { .venv/bin/hf-longseq compare --seeds 0 1 2 --jobs 2 --output_dir "runs/evidence/$name" "$@"; }

# fresh seeds with their own labels, every arm at the rate that seed 1000 chose on validation
run_gene-starts() {
    compare --recipe gene-starts --arch transformer --inits scratch,scratch-tied@steps,spt-masked --tune \
        --grid lr=5e-4,1e-3,2e-3 --tune_seeds 1000 --seeds 10 11 12 13 14 "$@"
}

run_bbc-bytes() {
    data bbc-bytes
    compare --recipe docs/examples/bbc-bytes.yaml --arch "$three" --inits "$arms" "$@"
}

run_listops() {
    compare --recipe listops-tiny --arch "$four" --inits "$arms" --finetune.learning_rate 3e-3 \
        --pretrain.eval_steps 100 --finetune.eval_steps 60 "$@"
}

run_pathfinder-16() {
    compare --recipe pathfinder-16 --arch s4,transformer --inits scratch,spt-masked --pretrain.max_steps 600 \
        --pretrain.eval_steps 300 --finetune.eval_steps 150 "$@"
}

# paths of two dashes and five times the pictures: what can be learned within minutes
run_pathfinder-16-short() { short_paths --arch transformer --inits scratch,spt-masked,scratch-tied,spt-causal "$@"; }
run_pathfinder-16-short-s4() {
    short_paths --arch s4 --inits "$arms" --finetune.learning_rate 3e-3 "$@"
}
short_paths() {
    compare --recipe pathfinder-16 --data.contour_length 2 --data.train_examples 20000 --pretrain.max_steps 1000 \
        --pretrain.learning_rate 2e-3 --pretrain.eval_steps 500 --finetune.max_steps 600 --finetune.eval_steps 100 "$@"
}

# the demo with other pretraining: whole stretches hidden (a third objective), and fewer inputs read
run_pretraining() {
    compare --recipe demo --inits scratch spt-masked spt-masked@span_length=8 spt-masked@span_length=32 \
        spt-masked@pretrain_inputs=20 spt-masked@pretrain_inputs=100 "$@"
}

# the demo with the sinusoidal positions of the paper's Table 1
run_sinusoidal() {
    compare --recipe demo --arch transformer@position_embedding=sinusoidal --inits scratch,spt-masked,spt-causal "$@"
}

run_sinusoidal-longer() {
    compare --recipe demo --arch transformer@position_embedding=sinusoidal --inits spt-masked \
        --pretrain.max_steps 1600 --pretrain.eval_steps 400 "$@"
}

# the demo, and a fifth of its labels, with more seeds
run_seeds() {
    compare --recipe demo --data.num_train_examples none --arch transformer --inits scratch,spt-masked,scratch-tied \
        --train_fractions 0.03,0.15 --seeds 0 1 2 3 4 "$@"
}

# every parameter redrawn from N(0, 0.1), and four times the pretraining of the demo
run_random-init-longer() {
    compare --recipe demo --arch "$three" --model.init_normal 0.1 --inits scratch,spt-masked \
        --pretrain.max_steps 1600 --pretrain.eval_steps 400 "$@"
}

run_smnist() { smnist --arch "$three" --inits "$arms" "$@"; }
run_smnist-tied() { smnist --arch transformer --inits scratch-tied "$@"; }
smnist() {
    data mnist-1024
    compare --recipe smnist --data.data_dir runs/examples --train_fractions 0.05,0.2,1 \
        --data.pretrain_inputs 1000 --model.num_hidden_layers 2 --pretrain.max_steps 300 --pretrain.learning_rate 2e-3 \
        --pretrain.eval_steps 150 --finetune.max_steps 150 --finetune.learning_rate 3e-3 --finetune.eval_steps 50 "$@"
}

run_wrist-sensors() {
    data wrist-sensors
    compare --recipe docs/examples/wrist-sensors.yaml --arch "$three" --inits "$arms" --train_fractions 0.15,1 "$@"
}
run_wrist-sensors-tied() {
    data wrist-sensors
    compare --recipe docs/examples/wrist-sensors.yaml --arch transformer --inits scratch-tied --train_fractions 0.15,1 "$@"
}

if ! declare -F "run_$name" >/dev/null; then
    echo "Name a comparison: $(declare -F | sed -n 's/^declare -f run_//p' | paste -sd' ')" >&2
    exit 2
fi
shift
source scripts/install.sh
"run_$name" "$@"
