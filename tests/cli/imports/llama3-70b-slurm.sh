#!/bin/bash
# A pretraining of Llama-3 70B on 32 nodes of 8 GPUs under Slurm, in the shape of scripts that
# grew in use: sizes by name, blocks for what is measured, a wrapper for the launch.
#SBATCH --job-name=llama3
#SBATCH --nodes=32
#SBATCH --gpus-per-node=8
#SBATCH --output=logs/%x_%j.out
set -euxo pipefail

export CUDA_DEVICE_MAX_CONNECTIONS=1
export NCCL_IB_TIMEOUT=19
MODEL_SIZE=${MODEL_SIZE:-70B}
PRECISION=${PRECISION:-bf16}
NNODES=${SLURM_NNODES:-32}
GPUS_PER_NODE=8
: "${RUN_NAME:=llama3-$MODEL_SIZE}"

log() {
    local now
    now=$(date +%T)
    echo "[$now] $*"
}

if [[ ! -d "$CHECKPOINTS/$RUN_NAME" ]]; then
    mkdir -p "$CHECKPOINTS/$RUN_NAME" || exit 1
fi

case $MODEL_SIZE in
    8B)
        LAYERS=32; HIDDEN=4096; FFN=14336; HEADS=32; TP=1; PP=1 ;;
    70B | 70b)
        LAYERS=80; HIDDEN=8192; FFN=28672; HEADS=64; TP=8; PP=4 ;;
    *)
        echo "no such size: $MODEL_SIZE" >&2
        exit 1 ;;
esac

MODEL_ARGS=(
    --use-mcore-models
    --num-layers $LAYERS --hidden-size $HIDDEN --ffn-hidden-size $FFN
    --num-attention-heads $HEADS
    --group-query-attention --num-query-groups 8
    --seq-length 8192 --max-position-embeddings 8192
    --position-embedding-type rope --rotary-base 500000
    --normalization RMSNorm --norm-epsilon 1e-5 --swiglu --disable-bias-linear
    --untie-embeddings-and-output-weights
    --vocab-size 128256 --make-vocab-size-divisible-by 1
    --attention-dropout 0 --hidden-dropout 0 --init-method-std 0.02
    --attention-backend fused --no-masked-softmax-fusion
)

TRAINING_ARGS=(
    --micro-batch-size 1 --global-batch-size $((NNODES * GPUS_PER_NODE * 2))
    --train-iters 10000
    --lr 1.5e-4 --min-lr 1.5e-5 --lr-decay-style cosine --lr-warmup-iters 2000 --decoupled-lr 2e-4
    --adam-beta1 0.9 --adam-beta2 0.95 --weight-decay 0.1 --clip-grad 1.0
    --seed 1234
)
if [ "$PRECISION" = "fp8" ]; then
    TRAINING_ARGS+=(--bf16 --fp8-format hybrid)
elif [ "$PRECISION" = "bf16" ]; then
    TRAINING_ARGS+=(--bf16)
else
    TRAINING_ARGS+=(--fp16)
fi

PARALLEL_ARGS=(--tensor-model-parallel-size $TP --pipeline-model-parallel-size $PP)
if (( PP > 1 )); then PARALLEL_ARGS+=(--num-layers-per-virtual-pipeline-stage 5); fi
[[ $TP -gt 1 && "$MODEL_SIZE" == 70* ]] && PARALLEL_ARGS+=(--sequence-parallel)
PARALLEL_ARGS+=(--use-distributed-optimizer --overlap-grad-reduce --overlap-param-gather)

LOGGING_ARGS=(--log-interval 1 --eval-interval 1000 --eval-iters 10 --log-everything-new)
if [ -n "${WANDB_API_KEY:-}" ] || [ -n "$WANDB_DIR" ]; then
    LOGGING_ARGS+=(
        --wandb-project pretraining   # of the group
        --wandb-exp-name "$RUN_NAME"
        --wandb-team-of-ours lab
    )
fi
if [ "$PROFILE" = 1 ]; then
    LOGGING_ARGS+=(--profile --profile-step-start 10 --profile-step-end 12)
fi

cat > "$CHECKPOINTS/$RUN_NAME/notes.txt" <<-EOT
	$RUN_NAME: torchrun pretrain_gpt.py --num-layers 1, as it was
	EOT

launch() {
    local script=$1
    shift
    log "starts $script"
    srun --nodes=$NNODES --ntasks-per-node=1 torchrun \
        --nproc_per_node $GPUS_PER_NODE --nnodes $NNODES \
        --rdzv_backend c10d --rdzv_endpoint "$(hostname):29500" \
        "$script" ${MODEL_ARGS[@]} ${TRAINING_ARGS[@]} ${PARALLEL_ARGS[@]} "${LOGGING_ARGS[@]}" \
        --tokenizer-type HuggingFaceTokenizer --tokenizer-model "$TOKENIZER" \
        --data-path "$DATA" --split 99,1,0 \
        --save "$CHECKPOINTS/$RUN_NAME" --load "$CHECKPOINTS/$RUN_NAME" --save-interval 500
}

launch pretrain_gpt.py 2>&1 | tee -a "logs/$RUN_NAME.log"
