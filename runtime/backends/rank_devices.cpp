#include "runtime/backends/rank_devices.hpp"

#include "runtime/machine/gpu_monitor.hpp"
#include "runtime/streams/stream_backend.hpp"

namespace orrery::runtime {

std::vector<RankDevice> rank_devices(LibraryLoader& loader, const RanksOfMachine& machine,
                                     const std::string& root) {
    const bool sees_its_own_alone =
        machine.launched && machine.devices == 1 && machine.ranks_per_device == 1;
    const std::int64_t first = sees_its_own_alone ? machine.local_rank : 0;
    const std::int64_t end = sees_its_own_alone ? first + 1 : machine.ranks;
    std::vector<RankDevice> all;
    for (std::int64_t rank = first; rank < end; ++rank) {
        const auto device =
            device_of_rank(machine.devices, machine.ranks_per_device, machine.launched, rank);
        if (!device) break;  // who takes the seat says so
        const auto gpu = visible_gpu(loader, *device);
        all.push_back({rank, gpu ? pci_device(root, pci_address(gpu->bus_id)) : PciDevice()});
    }
    return all;
}

}  // namespace orrery::runtime
