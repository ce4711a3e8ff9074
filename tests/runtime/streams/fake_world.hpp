// All ranks of a mesh as threads, each with fakes of a library of collectives and of streams, and
// what they have written down.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "runtime/launch/thread_planes.hpp"
#include "runtime/streams/group_communicator.hpp"
#include "tests/runtime/streams/fake_drivers.hpp"

namespace orrery::runtime {

inline plan::Mesh mesh_of(std::int64_t tensor, std::int64_t data, std::int64_t pipeline) {
    plan::Mesh mesh;
    mesh.tensor = tensor;
    mesh.data = data;
    mesh.pipeline = pipeline;
    return mesh;
}

// Every communicator that a plan of the mesh could ask for, of all pairs round the pipeline's ring.
inline std::vector<plan::Communicators> all_communicators(const plan::Mesh& mesh) {
    std::vector<plan::Communicators> all(static_cast<std::size_t>(mesh.pipeline));
    for (std::int64_t p = 0; p < mesh.pipeline; ++p) {
        plan::Communicators& of = all[static_cast<std::size_t>(p)];
        for (std::size_t kind = 0; kind < plan::kGroupKinds; ++kind)
            of.groups[kind] =
                mesh.group(static_cast<plan::GroupKind>(kind), mesh.rank({0, 0, 0, p})).size() > 1;
        of.after = of.before = mesh.pipeline > 2;
    }
    return all;
}

struct FakeRank {
    explicit FakeRank(plan::Rank rank) : collectives(rank) {}
    FakeCollectives collectives;
    FakeStreams streams;
};

class FakeWorld {
  public:
    explicit FakeWorld(const plan::Mesh& mesh) : asked(all_communicators(mesh)), mesh_(mesh) {
        for (plan::Rank rank = 0; rank < mesh.ranks(); ++rank)
            fakes.push_back(std::make_unique<FakeRank>(rank));
    }

    std::vector<plan::Communicators> asked;        // that are made
    std::vector<std::unique_ptr<FakeRank>> fakes;  // by rank
    CallTimeouts timeouts;
    CommunicatorOptions options;
    std::function<Instant()> now = std::chrono::steady_clock::now;

    // Each rank's `body` on a thread; the messages of the CommunicationErrors, "" where there is
    // none.
    std::vector<std::string> run(const std::function<void(plan::Rank, GroupCommunicator&)>& body) {
        const auto planes = thread_planes(mesh_.ranks());
        std::vector<std::string> messages(fakes.size());
        std::vector<std::thread> threads;
        for (plan::Rank rank = 0; rank < mesh_.ranks(); ++rank)
            threads.emplace_back([&, rank] {
                const auto r = static_cast<std::size_t>(rank);
                try {
                    {
                        GroupCommunicator communicator(mesh_, rank, fakes[r]->collectives,
                                                       fakes[r]->streams, *planes[r], timeouts, now,
                                                       {}, options);
                        communicator.connect(asked);
                        communicator.issue_on(fakes[r]->streams.create_stream(StreamUse::compute));
                        body(rank, communicator);
                    }
                    planes[r]->finish();
                } catch (const CommunicationError& error) {
                    messages[r] = error.what();
                }
            });
        for (std::thread& thread : threads)
            thread.join();
        return messages;
    }

    void expect_well(const std::function<void(plan::Rank, GroupCommunicator&)>& body) {
        for (const std::string& message : run(body))
            EXPECT_EQ(message, "");
        for (const auto& fake : fakes) {
            EXPECT_EQ(fake->collectives.depth, 0);
            for (const FakeCommunicator& world : fake->collectives.worlds)
                EXPECT_TRUE(world.ended && !world.aborted && world.calls.empty());
            for (const FakeCommunicator& communicator : fake->collectives.communicators) {
                EXPECT_TRUE(communicator.ended);
                EXPECT_FALSE(communicator.aborted);
            }
        }
    }

  private:
    plan::Mesh mesh_;
};

// By its name, what each member has written down of it.
inline std::map<std::string, std::vector<const FakeCommunicator*>> by_id(const FakeWorld& world) {
    std::map<std::string, std::vector<const FakeCommunicator*>> found;
    for (const auto& fake : world.fakes)
        for (const FakeCommunicator& communicator : fake->collectives.communicators)
            found[communicator.id].push_back(&communicator);
    return found;
}

// What member `from` has sent to `to`, and `to` has received from `from`: sizes.
inline std::vector<std::string> transferred(const FakeCommunicator& of, const std::string& verb,
                                            const std::string& preposition, std::int64_t peer) {
    std::vector<std::string> sizes;
    const std::string end = " " + preposition + " " + std::to_string(peer);
    for (const std::string& transfer : of.transfers)
        if (transfer.rfind(verb, 0) == 0 && transfer.size() >= end.size() &&
            transfer.compare(transfer.size() - end.size(), end.size(), end) == 0)
            sizes.push_back(
                transfer.substr(verb.size(), transfer.size() - verb.size() - end.size()));
    return sizes;
}

inline void expect_members_agree(const FakeWorld& world) {
    for (const auto& [id, members] : by_id(world)) {
        std::set<std::int64_t> places;
        for (const FakeCommunicator* member : members) {
            places.insert(member->member);
            EXPECT_EQ(member->members, static_cast<std::int64_t>(members.size())) << id;
            EXPECT_EQ(member->calls, members.front()->calls) << id;
            for (const FakeCommunicator* peer : members)
                EXPECT_EQ(transferred(*member, "send", "to", peer->member),
                          transferred(*peer, "receive", "from", member->member))
                    << id << ": " << member->member << " to " << peer->member;
        }
        EXPECT_EQ(places.size(), members.size()) << id;
    }
}

}  // namespace orrery::runtime
