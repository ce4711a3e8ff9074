#!/bin/bash
# A pretraining of GPT-3 175B on 1,024 GPUs, in the shape of Megatron-LM's examples.
export CUDA_DEVICE_MAX_CONNECTIONS=1

GPUS_PER_NODE=8
NUM_NODES=128
WORLD_SIZE=$(($GPUS_PER_NODE*$NUM_NODES))
CHECKPOINT_PATH=$1
DATA_PATH=$2

DISTRIBUTED_ARGS=(
    --nproc_per_node $GPUS_PER_NODE
    --nnodes $((WORLD_SIZE / GPUS_PER_NODE))
    --master_port 6000
)

MODEL_ARGS=(
    --num-layers 96
    --hidden-size 12288
    --num-attention-heads 96
    --seq-length 2048
    --max-position-embeddings 2048
    --vocab-size 51200
    --attention-backend auto # flash, fused or unfused
)

TRAINING_ARGS=(
    --micro-batch-size 1
    --global-batch-size 1536
    --train-samples 146484375
    --hidden-dropout 0
    --attention-dropout 0
    --weight-decay 0.1
    --adam-beta2 0.95
    --init-method-std 0.02
    --bf16
    --lr 6.0e-5
    --lr-decay-style cosine
    --min-lr 6.0e-6
    --lr-warmup-iters 120
    --recompute-granularity full --recompute-method uniform --recompute-num-layers 1
)

MODEL_PARALLEL_ARGS=(
    --tensor-model-parallel-size 8
    --pipeline-model-parallel-size 8
    --sequence-parallel
    --use-distributed-optimizer
    --overlap-grad-reduce --overlap-param-gather
)

torchrun ${DISTRIBUTED_ARGS[@]} pretrain_gpt.py \
    ${MODEL_ARGS[@]} \
    ${TRAINING_ARGS[@]} \
    "${MODEL_PARALLEL_ARGS[@]}" \
    --data-path $DATA_PATH --split 949,50,1 \
    --log-interval 100 --save "$CHECKPOINT_PATH" 2>&1 | tee run.log
