#include "runtime/backends/bound_ranks.hpp"

#include <utility>

#include "runtime/launch/bind_thread.hpp"

namespace orrery::runtime {
namespace {

// All ranks are threads of this process: their numbers are those on this machine. What the system
// refuses has been tried before.
class BoundThreads final : public Backend {
  public:
    BoundThreads(std::unique_ptr<Backend> backend, Binding binding)
        : backend_(std::move(backend)), binding_(std::move(binding)) {}

    void run_ranks(const plan::Mesh& mesh, const std::function<void(RankSeat&)>& body) override {
        backend_->run_ranks(mesh, [&](RankSeat& seat) {
            if (const RankBinding* rank = binding_.of(seat.rank())) bind_thread(*rank);
            body(seat);
        });
    }
    int threads_per_rank() const override { return backend_->threads_per_rank(); }

  private:
    std::unique_ptr<Backend> backend_;
    Binding binding_;
};

}  // namespace

std::unique_ptr<Backend> with_bound_ranks(std::unique_ptr<Backend> backend,
                                          const BackendRequest& request, Binding binding) {
    binding = tried(request.bind, std::move(binding));
    if (request.bound) request.bound(binding);
    if (!request.launch) return std::make_unique<BoundThreads>(std::move(backend), binding);
    if (const RankBinding* rank = binding.of(request.launch->local_rank)) bind_thread(*rank);
    return backend;
}

}  // namespace orrery::runtime
