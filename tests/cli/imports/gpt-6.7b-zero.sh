#!/bin/bash
# GPT-3 6.7B on 2 nodes of 8 GPUs, in the shape of scripts for Megatron's fork with DeepSpeed: the
# config of the engine is written by the script, with the script's variables.
TP=2
PP=1
ZERO_STAGE=2
MICRO=4
GLOBAL=512
OUT=${OUT:-output}
DS_CONFIG=$OUT/ds_config.json
mkdir -p $OUT

cat <<EOT > $DS_CONFIG
{
  "train_batch_size": $GLOBAL,
  "train_micro_batch_size_per_gpu": $MICRO,
  "steps_per_print": 1,
  "zero_optimization": {
    "stage": $ZERO_STAGE,
    "reduce_bucket_size": 2e8,
    "overlap_comm": true
  },
  "gradient_clipping": 1.0,
  "bf16": {"enabled": true},
  "wandb": {"enabled": true, "group": "$USER"}
}
EOT

DS_ARGS=""
DS_ARGS="--deepspeed ${DS_ARGS}"
DS_ARGS="--no-pipeline-parallel ${DS_ARGS}"
DS_ARGS="--deepspeed_config=$DS_CONFIG ${DS_ARGS}"
DS_ARGS="--zero-stage=$ZERO_STAGE ${DS_ARGS}"
DS_ARGS="--deepspeed-activation-checkpointing ${DS_ARGS}"

deepspeed --num_nodes 2 --num_gpus 8 pretrain_gpt.py \
    --tensor-model-parallel-size $TP --pipeline-model-parallel-size $PP \
    --num-layers 32 --hidden-size 4096 --num-attention-heads 32 \
    --seq-length 2048 --max-position-embeddings 2048 \
    --micro-batch-size $MICRO --global-batch-size $GLOBAL --train-iters 1000 \
    --lr 1.2e-4 --min-lr 1.2e-5 --lr-decay-style cosine --lr-warmup-iters 100 \
    --adam-beta2 0.95 --weight-decay 0.1 --clip-grad 1.0 \
    --hidden-dropout 0 --attention-dropout 0 --vocab-size 50257 \
    --checkpoint-activations --bf16 $DS_ARGS | tee $OUT/log
