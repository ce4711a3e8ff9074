// What a record says of a slice of a torus (Google's TPU): "slice 4x4x8 of 128 chips", "slices of
// 64 chips", "pods of 256 chips". Where its shape is not said it is the most even one that such
// slices have. Which axes wrap, and how many devices a chip is, stands with the device in the
// rules:
//
//   "torus": { "axes": 3, "wraps": { "multiples_of": 4 }, "devices_per_chip": 2, "source": "…" }
//   "torus": { "axes": 2, "wraps": { "from": 16 }, "source": "…" }
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace orrery::compare {

// Chips of one slice, as the text has it.
std::optional<std::int64_t> chips_of_slice(const std::string& text);

// "shape" and "wraparound" of a node that is a slice of so many devices. An axis as long as `first`
// is the first one: mesh axes are laid on physical ones where they fit
// (jax.experimental.mesh_utils.create_device_mesh).
nlohmann::json torus_of_slice(const nlohmann::json& torus, const std::string& text,
                              std::int64_t devices, std::int64_t first);

}  // namespace orrery::compare
