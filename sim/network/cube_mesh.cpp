#include "sim/network/cube_mesh.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>

#include "plan/check.hpp"
#include "plan/scenario/scenario.hpp"

namespace orrery::sim {

namespace {

constexpr int kDevices = static_cast<int>(plan::kCubeMeshDevices);
constexpr std::size_t kSubsets = std::size_t{1} << kDevices;

using Capacity = std::array<std::array<int, kDevices>, kDevices>;  // links, by direction

constexpr Capacity kLinks = {{{0, 1, 1, 2, 2, 0, 0, 0},
                              {1, 0, 2, 1, 0, 2, 0, 0},
                              {1, 2, 0, 2, 0, 0, 1, 0},
                              {2, 1, 2, 0, 0, 0, 0, 1},
                              {2, 0, 0, 0, 0, 1, 1, 2},
                              {0, 2, 0, 0, 1, 0, 2, 1},
                              {0, 0, 1, 0, 1, 2, 0, 2},
                              {0, 0, 0, 1, 2, 1, 2, 0}}};

int links(int a, int b) {
    return kLinks[static_cast<std::size_t>(a)][static_cast<std::size_t>(b)];
}

// Rings or chains through all members of a group, and the most of them that fit side by side.
class Packing {
  public:
    Packing(std::vector<int> members, bool closed, bool relayed)
        : members_(std::move(members)), closed_(closed), relayed_(relayed), left_(kLinks) {}

    int most() {
        // A ring has no first member; a chain may begin at any.
        for (const int first : members_) {
            visited_ = 1U << first;
            extend(first, first);
            if (closed_) break;
        }
        const int hops = static_cast<int>(members_.size()) - (closed_ ? 0 : 1);
        int all = 0, narrowest = kCubeMeshLinks * kDevices;
        for (const int a : members_) {
            int own = 0;
            for (const int b : members_)
                own += links(a, b);
            all += own;
            narrowest = std::min(narrowest, own);
        }
        hops_ = hops;
        bound_ = closed_ ? std::min(narrowest, all / hops) : all / hops;
        pack(0, 0, all);
        return most_;
    }

  private:
    using Hop = std::pair<std::uint8_t, std::uint8_t>;

    template <typename Next>
    void hop(int from, int to, const Next& next) {
        const auto use = [&](int a, int b) {
            walk_.emplace_back(static_cast<std::uint8_t>(a), static_cast<std::uint8_t>(b));
        };
        if (links(from, to) > 0) {
            use(from, to);
            next();
            walk_.pop_back();
            return;
        }
        if (!relayed_) return;
        for (const int by : members_) {
            if (links(from, by) == 0 || links(by, to) == 0) continue;
            use(from, by);
            use(by, to);
            next();
            walk_.resize(walk_.size() - 2);
        }
    }

    void extend(int first, int at) {
        bool complete = true;
        for (const int to : members_) {
            if ((visited_ >> to & 1U) != 0) continue;
            complete = false;
            hop(at, to, [&] {
                visited_ |= 1U << to;
                extend(first, to);
                visited_ &= ~(1U << to);
            });
        }
        if (!complete) return;
        if (closed_)
            hop(at, first, [&] { walks_.push_back(walk_); });
        else
            walks_.push_back(walk_);
    }

    int& left(const Hop& hop) { return left_[hop.first][hop.second]; }

    bool take(const std::vector<Hop>& walk) {
        for (std::size_t i = 0; i < walk.size(); ++i) {
            if (left(walk[i]) > 0) {
                --left(walk[i]);
                continue;
            }
            while (i-- > 0)
                ++left(walk[i]);
            return false;
        }
        return true;
    }

    // Depth first over walks in the order they were found, each as often as it fits.
    void pack(std::size_t from, int taken, int links_left) {
        most_ = std::max(most_, taken);
        if (most_ >= bound_ || taken + links_left / hops_ <= most_) return;
        for (std::size_t i = from; i < walks_.size() && most_ < bound_; ++i) {
            if (!take(walks_[i])) continue;
            pack(i, taken + 1, links_left - static_cast<int>(walks_[i].size()));
            for (const Hop& hop : walks_[i])
                ++left(hop);
        }
    }

    std::vector<int> members_;
    bool closed_;
    bool relayed_;
    unsigned visited_ = 0;
    std::vector<Hop> walk_;
    std::vector<std::vector<Hop>> walks_;
    Capacity left_;
    int hops_ = 1;
    int bound_ = 0;
    int most_ = 0;
};

std::vector<int> members_of(std::size_t subset) {
    std::vector<int> members;
    for (int d = 0; d < kDevices; ++d)
        if ((subset >> d & 1U) != 0) members.push_back(d);
    return members;
}

int most_lanes(const std::vector<int>& members, bool closed) {
    const int direct = Packing(members, closed, false).most();
    return direct > 0 ? direct : Packing(members, closed, true).most();
}

struct Lanes {
    int rings = 0;
    int chains = 0;
};

// Of every subset of a node, by a bit per member; the search takes milliseconds, so it is made
// once.
const std::array<Lanes, kSubsets>& lanes_of_subsets() {
    static const std::array<Lanes, kSubsets> all = [] {
        std::array<Lanes, kSubsets> lanes{};
        for (std::size_t subset = 0; subset < kSubsets; ++subset) {
            const std::vector<int> members = members_of(subset);
            if (members.size() > 1)
                lanes[subset] = {most_lanes(members, true), most_lanes(members, false)};
        }
        return lanes;
    }();
    return all;
}

}  // namespace

int cube_mesh_links(int a, int b) {
    ORRERY_CHECK(a >= 0 && a < kDevices && b >= 0 && b < kDevices && a != b,
                 "a link of a cube mesh needs two of its devices");
    return links(a, b);
}

MeshPlace mesh_place(const std::vector<int>& positions) {
    MeshPlace place;
    std::size_t subset = 0;
    for (std::size_t i = 0; i < positions.size(); ++i) {
        ORRERY_CHECK(positions[i] >= 0 && positions[i] < kDevices &&
                         (i == 0 || positions[i] > positions[i - 1]),
                     "members of a cube mesh are its devices, ascending");
        subset |= std::size_t{1} << positions[i];
    }
    place.rings = lanes_of_subsets()[subset].rings;
    place.chains = lanes_of_subsets()[subset].chains;
    if (positions.size() < 2) return place;
    const auto narrow = [](int links_now, int& fewest, int& none) {
        if (links_now == 0)
            ++none;
        else
            fewest = fewest == 0 ? links_now : std::min(fewest, links_now);
    };
    for (std::size_t i = 0; i < positions.size(); ++i) {
        for (std::size_t j = i + 1; j < positions.size(); ++j)
            narrow(links(positions[i], positions[j]), place.pair_links, place.far_pairs);
        narrow(links(positions[i], positions[(i + 1) % positions.size()]), place.next_links,
               place.far_nexts);
    }
    return place;
}

}  // namespace orrery::sim
