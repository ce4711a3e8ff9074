// Why a key of another framework has no counterpart here, where several frameworks have such keys.
// Internal to plan/scenario/import.
#pragma once

namespace orrery::plan::imports {

inline constexpr const char* kLog = "logging";
inline constexpr const char* kRate = "the course of the learning rate changes no step's work";
inline constexpr const char* kData = "which samples are read changes no step";
inline constexpr const char* kCheckpoint = "checkpoints stand outside of a step";
inline constexpr const char* kStart = "how a run starts or ends";
inline constexpr const char* kMoe = "mixtures of experts are not modelled";
inline constexpr const char* kNotModelled = "not modelled";

}  // namespace orrery::plan::imports
