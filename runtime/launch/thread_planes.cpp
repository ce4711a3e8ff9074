#include "runtime/launch/thread_planes.hpp"

#include <string>
#include <utility>

#include "runtime/launch/star_plane.hpp"

namespace orrery::runtime {
namespace {

using Inboxes = std::vector<std::unique_ptr<Inbox>>;  // by rank

class ThreadPlane : public StarPlane {
  public:
    ThreadPlane(std::int64_t rank, std::shared_ptr<Inboxes> inboxes)
        : StarPlane(rank, static_cast<std::int64_t>(inboxes->size())),
          inboxes_(std::move(inboxes)) {}
    ~ThreadPlane() override { leave(); }

  private:
    Inbox& inbox() override { return inbox_of(rank()); }
    Inbox& inbox_of(std::int64_t rank) { return *(*inboxes_)[static_cast<std::size_t>(rank)]; }

    void send(std::int64_t to, MessageKind kind, std::span<const std::byte> bytes) override {
        inbox_of(to).put(rank(), kind, Bytes(bytes.begin(), bytes.end()));
    }
    void spread(const std::string& reason) override {
        for (const auto& each : *inboxes_)
            each->end(reason);
    }

    std::shared_ptr<Inboxes> inboxes_;
};

}  // namespace

std::vector<std::unique_ptr<ControlPlane>> thread_planes(std::int64_t size) {
    const auto inboxes = std::make_shared<Inboxes>();
    for (std::int64_t rank = 0; rank < size; ++rank)
        inboxes->push_back(std::make_unique<Inbox>(size));
    std::vector<std::unique_ptr<ControlPlane>> planes;
    for (std::int64_t rank = 0; rank < size; ++rank)
        planes.push_back(std::make_unique<ThreadPlane>(rank, inboxes));
    return planes;
}

}  // namespace orrery::runtime
