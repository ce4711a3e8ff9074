// A queue of a device, of whatever driver: what is put into one is performed in that order.
#pragma once

namespace orrery::runtime {

struct Stream {
    void* handle = nullptr;  // the driver's; owned by the driver
};

}  // namespace orrery::runtime
