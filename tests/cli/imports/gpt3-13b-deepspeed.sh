#!/usr/bin/env bash
# GPT-3 13B on 4 nodes of 8 GPUs, in the shape of scripts for Megatron's fork with DeepSpeed: a
# config in a here-document, options in one string, switches that are words.
DIR=$(dirname "$0")
DS_CONFIG=${DIR}/ds_config.json
seq_len=2048
global_batch=256
use_flash="true"
activation_checkpoint='true'
log_optimizer_state="false"
num_nodes=4
num_gpus_per_node=8
num_gpus=$(( ${num_gpus_per_node} * ${num_nodes} ))
mp_size=4
pp_size=1
no_pp="true"

cat <<EOT > $DS_CONFIG
{
  "train_batch_size": $global_batch,
  "zero_optimization": {"stage": 1},
  "bf16": {"enabled": true}
}
EOT

if [[ "$seq_len" -ge 4096 ]]; then
    rope="--position-embedding-type rope"
else
    rope=""
fi

options=" \
    --num-layers 40 \
    --hidden-size 5120 \
    --num-attention-heads 40 \
    --seq-length ${seq_len} \
    --max-position-embeddings ${seq_len} \
    --micro-batch-size 2 \
    --global-batch-size ${global_batch} \
    --train-samples 1000000 \
    --lr 1e-4 --lr-decay-style cosine --min-lr 1e-6 --lr-warmup-samples 25600 \
    --adam-beta1 0.9 --adam-beta2 0.95 --weight-decay 0.1 --clip-grad 1.0 \
    --init-method-std 0.01 \
    --hidden-dropout 0 --attention-dropout 0 \
    --tensor-model-parallel-size ${mp_size} \
    --vocab-size 50257 --data-impl mmap --split 949,50,1 --num-workers 2 \
    --bf16 ${rope}"

if [ "${activation_checkpoint}" = "true" ] && [ $pp_size -eq 1 ]; then
    options="${options} --checkpoint-activations"
fi
if [ "${use_flash}" == "true" ]; then options+=" --use-flash-attn"; fi
if test "${log_optimizer_state}" = "true"; then
    options="${options} --num-experts 64"   # not asked for: never in the run
fi
for dir in tensorboard checkpoint log; do
    mkdir -p "output/$dir"
done
[ "$num_gpus" -gt 0 ] || { echo "no GPUs"; exit 1; }

deepspeed --num_nodes ${num_nodes} --num_gpus ${num_gpus_per_node} \
    ${DIR}/pretrain_gpt.py ${options} --tensorboard-dir output/tensorboard \
    --save output/checkpoint &> output/log/gpt3-13b.log
