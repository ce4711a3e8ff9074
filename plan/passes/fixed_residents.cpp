#include "plan/passes/passes.hpp"

namespace orrery::plan {

std::int64_t boundary_bytes(const Dims& dims) {
    return dims.sharded_tokens * dims.hidden * size_bytes(dims.dtype);
}

void add_fixed_residents(ProgramBuilder& builder) {
    Program& program = builder.program;
    program.workspace = builder.add_resident(
        "workspace", MemoryCategory::workspace,
        static_cast<std::int64_t>(builder.scenario.training.framework.workspace_mb * 1e6));
    program.scalars = builder.add_in_turns("scalars", MemoryCategory::workspace, 0);
    for (std::size_t i = 0; i < program.frames.size(); ++i)
        program.frames[i] =
            builder.add_resident("frame " + std::to_string(i), MemoryCategory::activations,
                                 boundary_bytes(builder.dims));
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
        program.beside_frames[i] =
            builder.add_resident("frame beside " + std::to_string(i), MemoryCategory::activations,
                                 boundary_bytes(builder.dims));
}

}  // namespace orrery::plan
