#include <algorithm>

#include "plan/passes/passes.hpp"

namespace orrery::plan {

std::int64_t boundary_bytes(const Dims& dims) {
    return dims.sharded_tokens * dims.hidden * size_bytes(dims.dtype);
}

namespace {

// Of the largest that a part hands on to the next.
std::int64_t frame_bytes(const ProgramBuilder& builder) {
    std::int64_t most = boundary_bytes(builder.dims);
    for (const Stage& stage : builder.program.stages)
        for (const StagePart& part : stage.parts) {
            const Block& block = builder.blocks.block(part.forward);
            if (block.output >= 0)
                most =
                    std::max(most, block.tensors[static_cast<std::size_t>(block.output)].bytes());
        }
    return most;
}

}  // namespace

void add_fixed_residents(ProgramBuilder& builder) {
    Program& program = builder.program;
    const std::int64_t frame = frame_bytes(builder);
    program.workspace = builder.add_resident(
        "workspace", MemoryCategory::workspace,
        static_cast<std::int64_t>(builder.scenario.training.framework.workspace_mb * 1e6));
    program.scalars = builder.add_in_turns("scalars", MemoryCategory::workspace, 0);
    for (std::size_t i = 0; i < program.frames.size(); ++i)
        program.frames[i] =
            builder.add_resident("frame " + std::to_string(i), MemoryCategory::activations, frame);
    if (builder.recomputed_bytes > 0)
        program.recomputed = builder.add_resident("recomputed", MemoryCategory::activations,
                                                  builder.recomputed_bytes);
    if (builder.quantized_bytes > 0)
        program.quantized =
            builder.add_resident("quantized", MemoryCategory::parameters, builder.quantized_bytes);
    program.scratch = builder.add_resident("scratch", MemoryCategory::activations, 0);
    if (!builder.scenario.layout.overlap_expert_communication) return;
    program.beside_scratch = builder.add_resident("scratch beside", MemoryCategory::activations, 0);
    for (std::size_t i = 0; i < program.beside_frames.size(); ++i)
        program.beside_frames[i] = builder.add_resident("frame beside " + std::to_string(i),
                                                        MemoryCategory::activations, frame);
}

}  // namespace orrery::plan
