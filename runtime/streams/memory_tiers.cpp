#include "runtime/streams/memory_tiers.hpp"

#include <cstring>

#include "plan/check.hpp"

namespace orrery::runtime {

MemoryTiers::MemoryTiers(const BoundProgram& program, StreamDriver& driver, std::int64_t margin,
                         const std::string& offload_path)
    : program_(program), driver_(driver) {
    ORRERY_CHECK(margin == 0 || driver.shares_host_memory(),
                 "what stands beside the arena is looked at by the host");
    if (driver.shares_host_memory()) {
        arena_ = driver.allocate(program.memory_bytes() + 2 * margin) + margin;
        host_ = arena_ + program.arena_bytes;
    } else {
        arena_ = driver.allocate(program.arena_bytes);
        if (program.host_bytes > 0) host_ = driver.allocate_host(program.host_bytes);
    }
    if (program.disk_bytes > 0)
        disk_ = std::make_shared<DiskTier>(offload_path, program.disk_bytes);
    if (!driver.shares_host_memory()) require_operands_on_device();
}

// Kernels and communication know the arena alone.
void MemoryTiers::require_operands_on_device() const {
    for (const BoundOp& bound : program_.ops) {
        if (plan::is_copy(bound.op->kind())) continue;
        for (const auto& operands : {bound.reads, bound.writes})
            for (const Operand& operand : operands)
                ORRERY_CHECK(operand.offset + operand.bytes() <= program_.arena_bytes,
                             "ops other than copies are performed in the device's memory");
    }
}

std::byte* MemoryTiers::at(std::int64_t address) const {
    return address < program_.arena_bytes ? arena_ + address
                                          : host_ + (address - program_.arena_bytes);
}

// Calls of the host may outlive the device in its driver's queues: they hold the file themselves.
void MemoryTiers::copy(const BoundOp& bound, Stream stream) const {
    const std::int64_t from = bound.reads[0].offset, to = bound.writes[0].offset;
    const std::int64_t bytes = bound.reads[0].bytes();
    const auto size = static_cast<std::size_t>(bytes);
    if (!on_disk(from) && !on_disk(to)) return driver_.copy(stream, at(to), at(from), bytes);
    const bool reads = on_disk(from);
    const std::int64_t memory = reads ? to : from;
    ORRERY_CHECK(memory >= program_.arena_bytes || driver_.shares_host_memory(),
                 "what is on disk comes and goes by way of the host's memory");
    const std::span<std::byte> held(at(memory), size);
    const std::int64_t place = place_on_disk(reads ? from : to);
    driver_.call(stream, [disk = disk_, held, place, reads] {
        if (reads)
            disk->read(place, held);
        else
            disk->write(place, held);
    });
}

void MemoryTiers::read(std::int64_t address, std::span<std::byte> into) const {
    if (on_disk(address))
        disk_->read(place_on_disk(address), into);
    else if (address >= program_.arena_bytes)
        std::memcpy(into.data(), at(address), into.size());
    else
        driver_.read(at(address), into);
}

void MemoryTiers::write(std::int64_t address, std::span<const std::byte> from) {
    if (on_disk(address))
        disk_->write(place_on_disk(address), from);
    else if (address >= program_.arena_bytes)
        std::memcpy(at(address), from.data(), from.size());
    else
        driver_.write(at(address), from);
}

}  // namespace orrery::runtime
