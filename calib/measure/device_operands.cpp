#include "calib/measure/device_operands.hpp"

#include <algorithm>
#include <span>

#include "calib/measure/operand.hpp"

namespace orrery::measure {
namespace {

constexpr std::int64_t kAlignment = 256;  // that of cuBLASLt's fastest kernels

}  // namespace

DeviceOperands::DeviceOperands(runtime::StreamDriver& driver, std::int64_t parts,
                               std::int64_t part_bytes)
    : driver_(driver),
      parts_(parts),
      part_bytes_((part_bytes + kAlignment - 1) / kAlignment * kAlignment),
      memory_(driver.allocate(parts * part_bytes_)) {}

void DeviceOperands::fill(plan::DType dtype) {
    dtype_ = dtype;
    for (std::int64_t part = 0; part < parts_; ++part)
        fill(dtype, part);
}

void DeviceOperands::fill(plan::DType dtype, std::int64_t part) {
    Operand numbers(dtype, kDrawnOnce);
    const std::span<const std::byte> drawn(
        static_cast<const std::byte*>(numbers.data()),
        static_cast<std::size_t>(kDrawnOnce * plan::size_bytes(dtype)));
    std::byte* const memory = memory_ + part * part_bytes_;
    for (std::int64_t at = 0; at < part_bytes_; at += static_cast<std::int64_t>(drawn.size())) {
        const auto count = std::min(drawn.size(), static_cast<std::size_t>(part_bytes_ - at));
        driver_.write(memory + at, drawn.first(count));
    }
}

}  // namespace orrery::measure
