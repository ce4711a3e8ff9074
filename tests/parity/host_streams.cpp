#include "tests/parity/host_streams.hpp"

#include <cstring>
#include <stdexcept>

#include "runtime/comm/communicator_plane.hpp"

namespace orrery::parity {
namespace {

using runtime::Event;
using runtime::Stream;

template <typename Handle>
Handle numbered(std::size_t number) {
    return {reinterpret_cast<void*>(number)};
}

template <typename Handle>
std::uintptr_t number_of(Handle handle) {
    return reinterpret_cast<std::uintptr_t>(handle.handle);
}

#define ORRERY_REQUESTS(X)                          \
    X(gemm, Gemm)                                   \
    X(attention, Attention)                         \
    X(attention_backward, AttentionBackward)        \
    X(attention_product, AttentionProduct)          \
    X(softmax, Softmax)                             \
    X(softmax_backward, SoftmaxBackward)            \
    X(dropout, Dropout)                             \
    X(dropout_backward, DropoutBackward)            \
    X(norm, Norm)                                   \
    X(norm_backward, NormBackward)                  \
    X(activation, Activation)                       \
    X(activation_backward, ActivationBackward)      \
    X(rope, Rope)                                   \
    X(rope_backward, Rope)                          \
    X(residual_add, ResidualAdd)                    \
    X(add, Add)                                     \
    X(bias_gradient, BiasGradient)                  \
    X(embedding, Embedding)                         \
    X(embedding_backward, EmbeddingBackward)        \
    X(cross_entropy_max, CrossEntropyMax)           \
    X(cross_entropy_sum, CrossEntropySum)           \
    X(cross_entropy, CrossEntropy)                  \
    X(cross_entropy_backward, CrossEntropyBackward) \
    X(gradient_norm, GradientNorm)                  \
    X(unscale, Unscale)                             \
    X(update_loss_scale, UpdateLossScale)           \
    X(loss_share, LossShare)                        \
    X(judge_loss, JudgeLoss)                        \
    X(adamw, AdamW)                                 \
    X(cast, Cast)                                   \
    X(fill, Fill)

class HostKernels final : public runtime::Kernels {
  public:
    HostKernels(HostDriver& driver, Stream stream) : driver_(driver), stream_(stream) {}

#define ORRERY_PERFORM(method, Request)                \
    void method(const runtime::Request& op) override { \
        asked(#method);                                \
        inner_.method(op);                             \
    }
    ORRERY_REQUESTS(ORRERY_PERFORM)
#undef ORRERY_PERFORM

    void bring(std::span<const std::int32_t> from, void* to) override {
        asked("bring");
        inner_.bring(from, to);
    }
    const double* keep(std::span<const double> values) override {
        return inner_.keep(values);
    }

  private:
    void asked(const char* name) {
        driver_.log.push_back({Asked::What::request, number_of(stream_), 0, name});
    }

    HostDriver& driver_;
    Stream stream_;
    runtime::CpuKernels inner_{1};
};

class HostSeat final : public runtime::RankSeat {
  public:
    HostSeat(runtime::Communicator& host, const runtime::StreamOptions& options)
        : host_(host), control_(host), options_(options) {}

    plan::Rank rank() const override { return host_.rank(); }
    runtime::ControlPlane& control() override { return control_; }
    std::unique_ptr<runtime::Device> make_device(const runtime::BoundProgram& program,
                                                 const plan::Scenario& scenario) override {
        driver_ = std::make_unique<HostDriver>();
        communicator_ = std::make_unique<HostCommunicator>(host_, *driver_);
        return std::make_unique<runtime::StreamDevice>(program, scenario, *communicator_, *driver_,
                                                       options_);
    }

  private:
    runtime::Communicator& host_;
    runtime::CommunicatorPlane control_;
    const runtime::StreamOptions& options_;
    std::unique_ptr<HostDriver> driver_;
    std::unique_ptr<HostCommunicator> communicator_;
};

}  // namespace

std::byte* HostDriver::allocate(std::int64_t bytes) {
    constexpr std::size_t kAlignment = 256;
    memory_.emplace_back(static_cast<std::size_t>(bytes) + kAlignment);
    const auto begin = reinterpret_cast<std::uintptr_t>(memory_.back().data());
    return memory_.back().data() + (kAlignment - begin % kAlignment);
}

Stream HostDriver::create_stream(runtime::StreamUse use) {
    streams.push_back(use);
    return numbered<Stream>(streams.size());
}

Event HostDriver::create_event(bool timed) {
    timed_.push_back(timed);
    recorded.push_back(0);
    return numbered<Event>(recorded.size());
}

void HostDriver::record(Event event, Stream stream) {
    recorded.at(number_of(event) - 1) = ++time_;
    log.push_back({Asked::What::record, number_of(stream), number_of(event), ""});
}

void HostDriver::wait(Stream stream, Event event) {
    if (!passed(event)) throw std::logic_error("waits for an event that was not recorded");
    log.push_back({Asked::What::wait, number_of(stream), number_of(event), ""});
}

bool HostDriver::passed(Event event) {
    return recorded.at(number_of(event) - 1) > 0;
}

// Every record takes a nanosecond.
std::int64_t HostDriver::nanoseconds(Event from, Event to) {
    if (!timed_.at(number_of(from) - 1) || !timed_.at(number_of(to) - 1))
        throw std::logic_error("the time of an event without one");
    return recorded.at(number_of(to) - 1) - recorded.at(number_of(from) - 1);
}

void HostDriver::read(const std::byte* from, std::span<std::byte> into) {
    std::memcpy(into.data(), from, into.size());
}

void HostDriver::write(std::byte* to, std::span<const std::byte> from) {
    std::memcpy(to, from.data(), from.size());
}

std::unique_ptr<runtime::Kernels> HostDriver::kernels(Stream stream, std::byte*, std::int64_t) {
    return std::make_unique<HostKernels>(*this, stream);
}

HostCommunicator::HostCommunicator(runtime::Communicator& inner, HostDriver& driver)
    : StreamCommunicator(inner.mesh(), inner.rank()), inner_(inner), driver_(driver) {}

void HostCommunicator::issue_on(Stream stream) {
    stream_ = stream;
}

void HostCommunicator::call(const char* name) {
    inner_.set_label(label());
    driver_.log.push_back({Asked::What::communication, number_of(stream_), 0, name});
}

void HostCommunicator::do_all_reduce(plan::GroupKind group, plan::DType dtype, void* data,
                                     std::int64_t elements, runtime::Reduction reduction) {
    call("all_reduce");
    inner_.all_reduce(group, dtype, data, elements, reduction);
}

void HostCommunicator::do_all_gather(plan::GroupKind group, plan::DType dtype, const void* mine,
                                     void* all, std::int64_t total) {
    call("all_gather");
    inner_.all_gather(group, dtype, mine, all, total);
}

void HostCommunicator::do_reduce_scatter(plan::GroupKind group, plan::DType dtype, const void* all,
                                         void* mine, std::int64_t total) {
    call("reduce_scatter");
    inner_.reduce_scatter(group, dtype, all, mine, total);
}

void HostCommunicator::do_all_to_all(plan::GroupKind group, plan::DType dtype, const void* to_all,
                                     void* from_all, std::int64_t total) {
    call("all_to_all");
    inner_.all_to_all(group, dtype, to_all, from_all, total);
}

void HostCommunicator::do_broadcast(plan::GroupKind group, plan::DType dtype, void* data,
                                    std::int64_t elements, std::int64_t root) {
    call("broadcast");
    inner_.broadcast(group, dtype, data, elements, root);
}

void HostCommunicator::do_exchange(std::span<const runtime::Transfer> transfers) {
    call("exchange");
    inner_.exchange(transfers);
}

void HostCommunicator::do_barrier(plan::GroupKind group) {
    call("barrier");
    inner_.barrier(group);
}

void HostStreamBackend::run_ranks(const plan::Mesh& mesh,
                                  const std::function<void(runtime::RankSeat&)>& body) {
    runtime::ThreadWorldOptions world;
    world.timeout = std::chrono::seconds(60);
    runtime::run_ranks(mesh, world, [&](plan::Rank, runtime::Communicator& communicator) {
        HostSeat seat(communicator, options_);
        body(seat);
    });
}

}  // namespace orrery::parity
