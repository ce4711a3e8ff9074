# Llama 3 70B on 8 nodes, in the shape of NeMo 2's quick start: a recipe of NeMo's and what this run
# changes of it.
import nemo_run as run
from nemo.collections import llm

NODES = 8


def configure_recipe(nodes: int = 1, gpus_per_node: int = 8):
    recipe = llm.llama3_70b.pretrain_recipe(
        dir="/checkpoints/llama3",  # where checkpoints go
        name="llama3_pretraining",
        num_nodes=nodes,
        num_gpus_per_node=gpus_per_node,
    )
    recipe.trainer.strategy.context_parallel_size = 1
    recipe.data.global_batch_size = 32 * nodes
    recipe.trainer.max_steps = 1_000
    recipe.trainer.val_check_interval = 100
    recipe.optim.config.lr = 1.5e-4
    recipe.optim.lr_scheduler.min_lr = 1.5e-5
    return recipe


def slurm_executor(nodes: int, devices: int) -> run.SlurmExecutor:
    executor = run.SlurmExecutor(account="a", partition="p", nodes=nodes, ntasks_per_node=devices)
    executor.env_vars = {"NCCL_NVLS_ENABLE": "0"}
    return executor


def main():
    recipe = configure_recipe(nodes=NODES)
    executor = slurm_executor(recipe.trainer.num_nodes, recipe.trainer.devices)
    with run.Experiment("llama3") as exp:
        exp.add(recipe, executor=executor, name="pretraining")
        exp.run(sequential=True, tail_logs=True)


if __name__ == "__main__":
    main()
