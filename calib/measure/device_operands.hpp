// Memory of a device for kernels under measurement, in a few parts of one size, filled with numbers
// of N(0, 1) of any element type: zeros are faster than what training multiplies, since they cost
// less power.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/number.hpp"
#include "runtime/streams/stream_driver.hpp"

namespace orrery::measure {

class DeviceOperands {
  public:
    // Of the driver, which must outlive the object.
    DeviceOperands(runtime::StreamDriver& driver, std::int64_t parts, std::int64_t part_bytes);

    // All parts anew. Nothing may be under way.
    void fill(plan::DType dtype);
    // One of them with numbers of another type, by which as() then names it.
    void fill(plan::DType dtype, std::int64_t part);

    runtime::Buffer operator[](std::int64_t part) const {
        return {memory_ + part * part_bytes_, dtype_};
    }
    // The same memory, for statistics of another type than the operands'.
    runtime::Buffer as(plan::DType dtype, std::int64_t part) const {
        return {memory_ + part * part_bytes_, dtype};
    }
    std::int64_t part_bytes() const { return part_bytes_; }

  private:
    runtime::StreamDriver& driver_;
    std::int64_t parts_;
    std::int64_t part_bytes_;
    std::byte* memory_;
    plan::DType dtype_ = plan::DType::fp32;
};

}  // namespace orrery::measure
