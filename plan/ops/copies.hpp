// Copies between tiers of memory.
#pragma once

#include "plan/ops/fields.hpp"
#include "plan/ops/op_family.hpp"

namespace orrery::plan {

struct CopyToDevice {
    static constexpr std::string_view kDoc = "host memory to the device";
    static constexpr OpFamily kFamily = OpFamily::copy;
    std::int64_t elements = 0;

    template <typename V>
    static void fields(V&& v) {
        v.size("elements", &CopyToDevice::elements);
    }
    template <typename V>
    void operands(V&& v) const {
        v.reads("source", elements);
        v.writes("target", elements);
    }
    bool operator==(const CopyToDevice&) const = default;
};

struct CopyToHost {
    static constexpr std::string_view kDoc = "the device to host memory";
    static constexpr OpFamily kFamily = OpFamily::copy;
    std::int64_t elements = 0;

    template <typename V>
    static void fields(V&& v) {
        v.size("elements", &CopyToHost::elements);
    }
    template <typename V>
    void operands(V&& v) const {
        v.reads("source", elements);
        v.writes("target", elements);
    }
    bool operator==(const CopyToHost&) const = default;
};

struct ReadDisk {
    static constexpr std::string_view kDoc = "disk to host memory";
    static constexpr OpFamily kFamily = OpFamily::copy;
    std::int64_t elements = 0;

    template <typename V>
    static void fields(V&& v) {
        v.size("elements", &ReadDisk::elements);
    }
    template <typename V>
    void operands(V&& v) const {
        v.reads("source", elements);
        v.writes("target", elements);
    }
    bool operator==(const ReadDisk&) const = default;
};

struct WriteDisk {
    static constexpr std::string_view kDoc = "host memory to disk";
    static constexpr OpFamily kFamily = OpFamily::copy;
    std::int64_t elements = 0;

    template <typename V>
    static void fields(V&& v) {
        v.size("elements", &WriteDisk::elements);
    }
    template <typename V>
    void operands(V&& v) const {
        v.reads("source", elements);
        v.writes("target", elements);
    }
    bool operator==(const WriteDisk&) const = default;
};

}  // namespace orrery::plan

// clang-format off
#define ORRERY_COPY_OPS(OP)          \
    OP(copy_to_device, CopyToDevice) \
    OP(copy_to_host, CopyToHost)     \
    OP(read_disk, ReadDisk)          \
    OP(write_disk, WriteDisk)
// clang-format on
