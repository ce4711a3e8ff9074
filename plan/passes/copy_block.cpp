#include "plan/passes/offload.hpp"

namespace orrery::plan {
namespace {

Stream stream_of(OpKind kind) {
    switch (kind) {
        case OpKind::copy_to_device:
            return Stream::copy;
        case OpKind::copy_to_host:
            return Stream::copy_out;
        case OpKind::read_disk:
            return Stream::disk_read;
        default:
            return Stream::disk_write;
    }
}

const char* verb(OpKind kind) {
    switch (kind) {
        case OpKind::copy_to_device:
            return "fetch";
        case OpKind::copy_to_host:
            return "offload";
        case OpKind::read_disk:
            return "load";
        default:
            return "spill";
    }
}

}  // namespace

Tier tier_of(KeptOn kept) {
    switch (kept) {
        case KeptOn::host:
            return Tier::host;
        case KeptOn::disk:
            return Tier::disk;
        case KeptOn::none:
            break;
    }
    return Tier::device;
}

Block copy_block(OpKind kind, Phase phase, const std::string& what, DType dtype,
                 std::int64_t bytes) {
    const std::int64_t elements = bytes / size_bytes(dtype);
    Block block;
    block.name = std::string(verb(kind)) + '.' + what;
    block.tensors = {{"from", Role::source, dtype, {elements}},
                     {"to", Role::target, dtype, {elements}}};
    Op op;
    op.spec = spec_of(kind, {elements});
    op.phase = phase;
    op.stream = stream_of(kind);
    op.dtype = dtype;
    op.reads = {0};
    op.writes = {1};
    op.label = what;
    block.ops.push_back(std::move(op));
    return block;
}

}  // namespace orrery::plan
