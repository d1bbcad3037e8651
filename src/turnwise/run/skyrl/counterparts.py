"""The SkyRL config keys for the sections of a recipe; ValueError for what SkyRL does not support."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from turnwise.config import CLIP_BOUNDS, Recipe, Sizes, SkyRLConfig, TrackerConfig
from turnwise.config.episodes import ModelConfig, RolloutConfig, TasksConfig
from turnwise.config.run import EvaluationConfig
from turnwise.config.training import AlgorithmConfig, KLConfig, OptimizerConfig, PolicyConfig, UpdateConfig
from turnwise.models.places import model_place

Overrides = dict[str, Any]
"""Dotted keys of SkyRL and their values."""

_AGGREGATIONS = {
    "token": "token_mean",
    "sequence": "sequence_mean",
    "constant": "seq_mean_token_sum_norm",
    "prompt": "prompt_mean",
}
_ADVANTAGES = {
    "mean": "grpo",
    "grpo": "grpo",
    "rloo": "rloo",
    "maxrl": "maxrl",
    "reinforce++": "reinforce++",
    "gae": "gae",
}
_SCHEDULES = {"constant": "constant_with_warmup", "linear": "linear", "cosine": "cosine"}
_LOGGERS = ("wandb", "tensorboard")


def counterparts(recipe: Recipe) -> Overrides:
    """All keys of SkyRL but those of paths and the logger."""
    is_async, sizes = recipe.run.mode == "async", recipe.sizes
    return {
        "trainer.seed": recipe.seed,
        **_policy(recipe.policy, recipe.model, sizes),
        **_sampling(recipe.rollout, recipe.evaluation, is_async=is_async),
        **_engines(recipe.skyrl, sizes, is_eager=recipe.engine.vllm.eager, is_async=is_async),
        **_algorithm(recipe),
        **_optimizer(recipe.optimizer, recipe.update, recipe.run.tasks_per_step, sizes),
        **_run(recipe),
    }


def _policy(policy: PolicyConfig, model: ModelConfig, sizes: Sizes) -> Overrides:
    if model.dtype == "float16":
        raise ValueError("model.dtype: SkyRL trains in bfloat16 or float32")
    if model.quantisation != "none":
        raise ValueError(f"model.quantisation: SkyRL does not support {model.quantisation!r}")
    if policy.lora_tokens:
        raise ValueError("policy.lora_tokens: SkyRL trains no rows of tokens; run `turnwise sft` first")
    if policy.lora_alpha != int(policy.lora_alpha):
        raise ValueError(f"policy.lora_alpha: SkyRL needs an integer, not {policy.lora_alpha}")
    targets = policy.lora_targets if isinstance(policy.lora_targets, str) else list(policy.lora_targets)
    return _precision(model.dtype) | {
        "trainer.strategy": "fsdp",
        "trainer.policy.model.path": model_place(model.path),
        "trainer.bf16": model.dtype == "bfloat16",
        "generator.inference_engine.model_dtype": model.dtype,
        "trainer.policy.model.lora.rank": policy.lora_rank if policy.tuning == "lora" else 0,
        "trainer.policy.model.lora.alpha": int(policy.lora_alpha),
        "trainer.policy.model.lora.dropout": 0.0,
        "trainer.policy.model.lora.target_modules": targets,
        "trainer.gradient_checkpointing": bool(sizes.gradient_checkpointing),
    }


def _precision(dtype: str) -> Overrides:
    """Without these keys, SkyRL's FSDP casts weights to bfloat16, whatever `trainer.bf16` is."""
    if dtype != "float32":
        return {}
    models = ("policy", "ref", "critic")
    return {f"trainer.{model}.fsdp_config.mixed_precision.param_dtype": "fp32" for model in models}


def _sampling(rollout: RolloutConfig, evaluation: EvaluationConfig, *, is_async: bool) -> Overrides:
    rollout.require_exploration()
    evaluated = {"temperature": evaluation.temperature, "max_generate_length": rollout.tokens_per_turn}
    redraws: Overrides = {}
    if rollout.dynamic_sampling and is_async:
        redraws = {
            "trainer.algorithm.zero_variance_filter": True,
            "trainer.fully_async.sample_full_batch": True,
        }
    elif rollout.dynamic_sampling:
        redraws = {"trainer.algorithm.dynamic_sampling.type": "filter"}
    return redraws | {
        "environment.env_class": "turnwise",
        "generator.n_samples_per_prompt": rollout.group_size,
        "generator.sampling_params.temperature": rollout.temperature,
        "generator.sampling_params.max_generate_length": rollout.tokens_per_turn,
        "generator.eval_sampling_params": evaluated,
        "generator.eval_n_samples_per_prompt": evaluation.num_samples,
        # turnwise limits the episodes itself; SkyRL must not truncate them
        "trainer.max_prompt_length": rollout.tokens_per_episode,
        "generator.max_input_length": rollout.tokens_per_episode,
        "generator.inference_engine.engine_init_kwargs.max_model_len": rollout.tokens_per_episode,
    }


def _engines(cluster: SkyRLConfig, sizes: Sizes, *, is_eager: bool, is_async: bool) -> Overrides:
    num_gpus = cluster.num_nodes * cluster.gpus_per_node
    num_engines = cluster.num_engines or num_gpus // cluster.gpus_per_engine
    if cluster.colocate and num_engines * cluster.gpus_per_engine != num_gpus:
        raise ValueError(
            f"skyrl.num_engines: {num_engines} engines of {cluster.gpus_per_engine} GPUs do not match the "
            f"{num_gpus} training GPUs; set skyrl.colocate = false, or other numbers"
        )
    if cluster.colocate and is_async:
        raise ValueError("run.mode is 'async', which needs skyrl.colocate = false: both run at the same time")
    groups = ("policy", "ref", "critic")
    return {
        "trainer.placement.colocate_all": cluster.colocate,
        **{f"trainer.placement.{group}_num_nodes": cluster.num_nodes for group in groups},
        **{f"trainer.placement.{group}_num_gpus_per_node": cluster.gpus_per_node for group in groups},
        "generator.inference_engine.num_engines": num_engines,
        "generator.inference_engine.tensor_parallel_size": cluster.gpus_per_engine,
        "generator.inference_engine.gpu_memory_utilization": sizes.gpu_memory_utilization,
        "generator.inference_engine.enforce_eager": is_eager,
        "generator.inference_engine.max_num_seqs": sizes.max_batch,
    }


def _algorithm(recipe: Recipe) -> Overrides:
    algorithm = recipe.algorithm
    if algorithm.advantage not in _ADVANTAGES:
        raise ValueError(f"algorithm.advantage: SkyRL has no {algorithm.advantage!r}")
    overrides: Overrides = {
        "trainer.algorithm.advantage_estimator": _ADVANTAGES[algorithm.advantage],
        "trainer.algorithm.grpo_norm_by_std": algorithm.advantage == "grpo",
        "trainer.algorithm.gamma": algorithm.gamma,
        "trainer.algorithm.lambd": algorithm.lam,
        "trainer.algorithm.use_entropy_loss": algorithm.entropy_bonus > 0,
        "trainer.algorithm.entropy_loss_coef": algorithm.entropy_bonus,
        "trainer.algorithm.loss_reduction": _AGGREGATIONS[algorithm.aggregation],
    }
    if algorithm.aggregation == "constant":
        overrides["trainer.algorithm.max_seq_len"] = recipe.rollout.tokens_per_turn
    if algorithm.advantage == "gae":
        if algorithm.gamma_unit == "turn":
            raise ValueError("algorithm.gamma_unit: SkyRL discounts only per token")
        overrides |= {
            "trainer.critic.model.path": model_place(recipe.model.path),
            "trainer.critic.optimizer_config.lr": recipe.value.learning_rate,
            # if the recipe does not clip values: too wide to ever clip
            "trainer.algorithm.value_clip": recipe.value.max_change or 1e9,
            "trainer.critic_mini_batch_size": _tasks_per_minibatch(
                recipe.run.tasks_per_step, recipe.update.num_minibatches
            ),
        }
    overrides |= _loss(algorithm) | _correction(algorithm)
    return overrides | _kl(algorithm.kl, recipe.reference.kind)


def _loss(algorithm: AlgorithmConfig) -> Overrides:
    if algorithm.loss == "reinforce":
        raise ValueError("algorithm.loss: SkyRL has no 'reinforce'; 'clip' is equal for one step per batch")
    low, high = CLIP_BOUNDS[algorithm.loss]
    low = low if algorithm.clip_low is None else algorithm.clip_low
    high = high if algorithm.clip_high is None else algorithm.clip_high
    if algorithm.loss == "cispo":
        return {
            "trainer.algorithm.policy_loss_type": "cispo",
            "trainer.algorithm.cispo.cispo_eps_clip_low": low,
            "trainer.algorithm.cispo.cispo_eps_clip_high": high,
        }
    kind = "gspo" if algorithm.loss == "gspo" else "regular" if algorithm.clip_dual is None else "dual_clip"
    if kind == "gspo" and algorithm.clip_dual is not None:
        raise ValueError("algorithm.clip_dual: SkyRL's gspo has no dual clip")
    overrides: Overrides = {
        "trainer.algorithm.policy_loss_type": kind,
        "trainer.algorithm.eps_clip_low": low,
        "trainer.algorithm.eps_clip_high": high,
    }
    if algorithm.clip_dual is not None:
        overrides["trainer.algorithm.clip_ratio_c"] = algorithm.clip_dual
    return overrides


def _correction(algorithm: AlgorithmConfig) -> Overrides:
    prefix = "trainer.algorithm.off_policy_correction"
    cap = algorithm.correction_cap
    match algorithm.correction:
        case "decoupled":
            return {f"{prefix}.tis_ratio_type": "token", f"{prefix}.token_tis_ratio_clip_high": cap}
        case "sequence":
            return {f"{prefix}.tis_ratio_type": "sequence", f"{prefix}.sequence_tis_ratio_clip_high": cap}
        case "mask":
            names = "token_mask_is_threshold_low", "token_mask_is_threshold_high"
            return {f"{prefix}.{names[0]}": 1 / cap, f"{prefix}.{names[1]}": cap}
        case "mask_sequence":
            bounds = {f"{prefix}.geo_mask_low": 1 / cap, f"{prefix}.geo_mask_high": cap}
            return {f"{prefix}.sequence_mask_metric": "geometric"} | bounds
        case "bypass":
            if algorithm.loss != "cispo":
                raise ValueError("algorithm.correction: SkyRL has 'bypass' only for algorithm.loss 'cispo'")
            return {"trainer.algorithm.cispo.cispo_anchor": "rollout"}
        case "none":
            return {}


def _kl(kl: KLConfig, reference: str) -> Overrides:
    if kl.placement != "off" and reference != "frozen":
        raise ValueError(f"reference.kind: SkyRL's reference is 'frozen', not {reference!r}")
    if kl.target is not None and kl.placement != "reward":
        raise ValueError("algorithm.kl.target: SkyRL adapts the coefficient only for placement 'reward'")
    adaptive = {
        "trainer.algorithm.kl_ctrl.type": "adaptive",
        "trainer.algorithm.kl_ctrl.kl_target": kl.target,
    }
    return (adaptive if kl.target is not None else {}) | {
        "trainer.algorithm.use_kl_loss": kl.placement.startswith("loss"),
        "trainer.algorithm.use_kl_in_reward": kl.placement == "reward",
        "trainer.algorithm.kl_estimator_type": {"reward": "k1", "loss_k2": "k2"}.get(kl.placement, "k3"),
        "trainer.algorithm.kl_loss_coef": kl.coefficient,
    }


def _optimizer(
    optimizer: OptimizerConfig, update: UpdateConfig, tasks_per_step: int, sizes: Sizes
) -> Overrides:
    prefix = "trainer.policy.optimizer_config"
    steps_per_batch = update.num_epochs * update.num_minibatches
    return {
        f"{prefix}.lr": optimizer.learning_rate,
        f"{prefix}.weight_decay": optimizer.weight_decay,
        f"{prefix}.adam_betas": list(optimizer.betas),
        f"{prefix}.scheduler": _SCHEDULES[optimizer.schedule],
        # SkyRL counts optimizer steps, a recipe counts batches
        f"{prefix}.num_warmup_steps": optimizer.warmup_steps * steps_per_batch,
        f"{prefix}.max_grad_norm": optimizer.max_gradient_norm,
        "trainer.update_epochs_per_batch": update.num_epochs,
        "trainer.policy_mini_batch_size": _tasks_per_minibatch(tasks_per_step, update.num_minibatches),
        "trainer.max_tokens_per_microbatch": sizes.tokens_per_microbatch,
    }


def _tasks_per_minibatch(num_tasks: int, num_minibatches: int) -> int:
    size, rest = divmod(num_tasks, num_minibatches)
    if rest:
        raise ValueError(
            f"update.num_minibatches: SkyRL needs equal minibatches, and {num_tasks} tasks "
            f"per step do not divide into {num_minibatches}"
        )
    return size


def _run(recipe: Recipe) -> Overrides:
    run, evaluation = recipe.run, recipe.evaluation
    if run.num_epochs is not None:
        raise ValueError("run.num_epochs: SkyRL counts epochs differently: set run.num_steps")
    if run.num_steps < 1:
        raise ValueError("run.num_steps: SkyRL needs at least one step")
    is_evaluated = _is_evaluated(recipe.evaluation, recipe.tasks)
    overrides: Overrides = {
        "trainer.max_training_steps": run.num_steps,
        # an epoch has at least one step, so max_training_steps ends the run
        "trainer.epochs": run.num_steps,
        "trainer.train_batch_size": run.tasks_per_step,
        "trainer.eval_batch_size": run.tasks_per_step,
        "trainer.ckpt_interval": run.checkpoint_every,
        "trainer.max_ckpts_to_keep": run.keep_checkpoints,
        "trainer.hf_save_interval": run.num_steps,
        "trainer.eval_interval": evaluation.every if is_evaluated else -1,
        "trainer.eval_before_train": is_evaluated and evaluation.before_and_after,
        # the tasks are in memory: loader processes would only cost their start
        "data.dataloader.num_workers": 0,
    }
    if run.mode == "async":
        if (recipe.algorithm.loss, recipe.algorithm.correction) != ("cispo", "bypass"):
            raise ValueError(
                "run.mode is 'async', where SkyRL has no π_old: set algorithm.loss = 'cispo' and "
                "algorithm.correction = 'bypass'"
            )
        if recipe.update.num_minibatches > 1:
            raise ValueError("update.num_minibatches: SkyRL's async trainer does not split a batch")
        overrides |= {
            "trainer.fully_async.enabled": True,
            "trainer.fully_async.max_staleness_steps": run.max_staleness,
            "trainer.fully_async.num_parallel_generation_workers": run.tasks_per_step
            * (run.max_staleness + 1),
        }
    return overrides


def paths_and_logger(trackers: Sequence[TrackerConfig], tasks: TasksConfig, folder: Path) -> Overrides:
    """The keys for data, output folders and the logger; `folder` is the run folder."""
    tracker = next((tracker for tracker in trackers if tracker.kind in _LOGGERS), None)
    return {
        "trainer.logger": tracker.kind if tracker else "console",
        "trainer.project_name": tracker.project if tracker and tracker.project else "turnwise",
        "trainer.run_name": folder.name,
        "trainer.ckpt_path": str(folder / "checkpoints"),
        "trainer.export_path": str(folder / "exports"),
        "trainer.log_path": str(folder / "logs"),
        "data.train_data": [str(tasks.train)],
        "data.val_data": [str(tasks.validation)] if tasks.validation else [],
    }


def differences(recipe: Recipe) -> Iterator[str]:
    """What SkyRL supports but does differently, one sentence per difference."""
    if recipe.model.dtype == "float32":
        yield "model.dtype 'float32' keeps weights and sums in float32, and multiplies matrices in bfloat16"
    if recipe.algorithm.advantage == "reinforce++":
        yield "algorithm.advantage 'reinforce++' is whitened over tokens, not over episodes"
    if recipe.algorithm.advantage == "gae":
        yield "algorithm.advantage 'gae' uses a whole model as critic, and is whitened"
    if recipe.rollout.dynamic_sampling:
        yield "rollout.dynamic_sampling draws whole batches until there are enough groups with signal"
    if _is_evaluated(recipe.evaluation, recipe.tasks) and recipe.evaluation.before_and_after:
        yield "evaluation.before_and_after uses the validation tasks, not the held-out ones"
    yield "run.keep_checkpoints keeps only the last ones, not the best on validation"
    known = [tracker.kind for tracker in recipe.trackers if tracker.kind in _LOGGERS]
    for tracker in recipe.trackers:
        if tracker.kind not in known[:1]:
            yield f"tracker {tracker.kind!r} gets nothing: SkyRL has one logger, wandb or tensorboard"


def _is_evaluated(evaluation: EvaluationConfig, tasks: TasksConfig) -> bool:
    return bool(evaluation.every and tasks.validation)
