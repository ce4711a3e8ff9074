// A library of collectives for a run of one rank: there is nobody to call.
#pragma once

#include <stdexcept>

#include "runtime/streams/collective_driver.hpp"

namespace orrery::runtime::gpu_check {

class NoCollectives final : public CollectiveDriver {
  public:
    std::vector<std::byte> unique_id() override { none(); }
    Communicator begin(std::span<const std::byte>, std::int64_t, std::int64_t) override { none(); }
    State state(Communicator) override { none(); }
    std::string fault(Communicator) override { none(); }
    void end(Communicator) override { none(); }
    void abort(Communicator) override { none(); }
    void group_start() override { none(); }
    void group_end() override { none(); }
    void all_reduce(Communicator, plan::DType, void*, std::int64_t, Reduction, Stream) override {
        none();
    }
    void all_gather(Communicator, plan::DType, const void*, void*, std::int64_t, Stream) override {
        none();
    }
    void reduce_scatter(Communicator, plan::DType, const void*, void*, std::int64_t,
                        Stream) override {
        none();
    }
    void broadcast(Communicator, plan::DType, void*, std::int64_t, std::int64_t, Stream) override {
        none();
    }
    void send(Communicator, const void*, std::int64_t, std::int64_t, Stream) override { none(); }
    void receive(Communicator, void*, std::int64_t, std::int64_t, Stream) override { none(); }
    void copy(void*, const void*, std::int64_t, Stream) override { none(); }

  private:
    [[noreturn]] static void none() { throw std::logic_error("a rank that is alone calls nobody"); }
};

}  // namespace orrery::runtime::gpu_check
