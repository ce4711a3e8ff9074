// Why a key of another framework has no counterpart here, where several frameworks have such keys.
// Internal to plan/scenario/import.
#pragma once

#include <string>

namespace orrery::plan::imports {

inline constexpr const char* kLog = "logging";
inline constexpr const char* kRate = "the course of the learning rate changes no step's work";
inline constexpr const char* kData = "which samples are read changes no step";
inline constexpr const char* kCheckpoint = "checkpoints stand outside of a step";
inline constexpr const char* kStart = "how a run starts or ends";
inline constexpr const char* kMoe = "mixtures of experts are not read from this format";
inline constexpr const char* kNotModelled = "not modelled";

inline constexpr const char* kEvaluation = "evaluation stands outside of a step";
inline constexpr const char* kProfile = "profiling";

// Why a key that no table has changes nothing that a step computes, sends or keeps, as its name
// says: "--wandb-team", "metrics.tensorboard_dir"; null where it does not.
const char* harmless_by_name(const std::string& key);

}  // namespace orrery::plan::imports
