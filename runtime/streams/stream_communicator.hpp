// A communicator whose calls are put into a stream of the device and return at once: memory that a
// call names is in use until its stream has passed it.
#pragma once

#include "runtime/comm/communicator.hpp"
#include "runtime/streams/stream.hpp"

namespace orrery::runtime {

class StreamCommunicator : public Communicator {
  public:
    using Communicator::Communicator;

    // Where later calls go.
    virtual void issue_on(Stream stream) = 0;

    // Throws CommunicationError where a call has failed, or has not ended in its time. From the
    // thread that makes the calls.
    virtual void check() = 0;
};

}  // namespace orrery::runtime
