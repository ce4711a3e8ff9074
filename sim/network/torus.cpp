#include "sim/network/torus.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "plan/check.hpp"

namespace orrery::sim {
namespace {

using Axes = std::vector<plan::TorusAxis>;
using Coordinates = std::array<int, plan::kMostTorusAxes>;

Coordinates coordinates(int position, const Axes& axes) {
    Coordinates at{};
    for (std::size_t axis = 0; axis < axes.size(); ++axis) {
        const int length = static_cast<int>(axes[axis].devices);
        at[axis] = position % length;
        position /= length;
    }
    return at;
}

// Links from one place of an axis to another, negative where the shorter way is down.
int displacement(int from, int to, const plan::TorusAxis& axis) {
    const int length = static_cast<int>(axis.devices);
    const int up = to - from;
    if (!axis.wraps) return up;
    const int round = (up % length + length) % length;
    return 2 * round <= length ? round : round - length;
}

int step_of(const Axes& axes, std::size_t axis) {
    int step = 1;
    for (std::size_t below = 0; below < axis; ++below)
        step *= static_cast<int>(axes[below].devices);
    return step;
}

// Numbers by link. A link is known by the position that it leads up from.
class Links {
  public:
    explicit Links(const Axes& axes) : axes_(axes) {
        std::size_t positions = 1;
        for (std::size_t axis = 0; axis < axes.size(); ++axis) {
            steps_[axis] = step_of(axes, axis);
            positions *= static_cast<std::size_t>(axes[axis].devices);
        }
        of_axes_.assign(axes.size(), std::vector<int>(positions, 0));
    }

    int& at(std::size_t axis, int position) {
        return of_axes_[axis][static_cast<std::size_t>(position)];
    }

    // Visits the links on the way, dimension after dimension: visit(axis, number, upwards).
    template <typename Visit>
    void each_on_way(int from, int to, Visit visit) {
        Coordinates at = coordinates(from, axes_);
        const Coordinates goal = coordinates(to, axes_);
        int position = from;
        for (std::size_t axis = 0; axis < axes_.size(); ++axis) {
            const int length = static_cast<int>(axes_[axis].devices);
            const int way = displacement(at[axis], goal[axis], axes_[axis]);
            for (int link = 0; link < std::abs(way); ++link) {
                const int next = (at[axis] + (way > 0 ? 1 : -1) + length) % length;
                const int other = position + (next - at[axis]) * steps_[axis];
                visit(axis, this->at(axis, way > 0 ? position : other), way > 0);
                at[axis] = next;
                position = other;
            }
        }
    }

    int step(std::size_t axis) const { return steps_[axis]; }

  private:
    const Axes& axes_;
    std::array<int, plan::kMostTorusAxes> steps_{};
    std::vector<std::vector<int>> of_axes_;
};

// Where a group has devices on an axis, ascending.
std::vector<int> places_on(std::size_t axis, const std::vector<int>& positions, const Axes& axes) {
    std::set<int> places;
    for (const int position : positions)
        places.insert(coordinates(position, axes)[axis]);
    return {places.begin(), places.end()};
}

AxisUse use_of(const std::vector<int>& places, const plan::TorusAxis& axis) {
    AxisUse use;
    use.members = static_cast<int>(places.size());
    if (use.members < 2) return use;
    const int length = static_cast<int>(axis.devices);
    bool even = length % use.members == 0;
    for (std::size_t i = 1; i < places.size(); ++i) {
        const int gap = places[i] - places[i - 1];
        use.links = std::max(use.links, gap);
        even = even && gap == length / use.members;
    }
    use.ring = axis.wraps && even;
    return use;
}

// The links of an axis that a group's devices in each line of it reach one another by:
// visit(number).
template <typename Visit>
void each_link_in_use(const std::vector<int>& positions, std::size_t axis, const AxisUse& use,
                      const Axes& axes, Links& links, Visit visit) {
    const int length = static_cast<int>(axes[axis].devices);
    std::map<int, std::pair<int, int>> ends;  // of each line, by the position of its first place
    for (const int position : positions) {
        const int place = coordinates(position, axes)[axis];
        const int line = position - place * links.step(axis);
        const auto [found, fresh] = ends.try_emplace(line, place, place);
        if (fresh) continue;
        found->second.first = std::min(found->second.first, place);
        found->second.second = std::max(found->second.second, place);
    }
    for (const auto& [line, of_line] : ends) {
        const auto [first, last] = use.ring ? std::pair(0, length) : of_line;
        for (int place = first; place < last; ++place)
            visit(links.at(axis, line + place * links.step(axis)));
    }
}

void share_axes(const std::vector<std::vector<int>>& groups, const Axes& axes,
                std::vector<TorusPlace>& places) {
    Links groups_on(axes);
    for (std::size_t axis = 0; axis < axes.size(); ++axis) {
        for (std::size_t g = 0; g < groups.size(); ++g)
            if (places[g].axes[axis].members > 1)
                each_link_in_use(groups[g], axis, places[g].axes[axis], axes, groups_on,
                                 [](int& groups_here) { ++groups_here; });
        for (std::size_t g = 0; g < groups.size(); ++g) {
            AxisUse& use = places[g].axes[axis];
            if (use.members > 1)
                each_link_in_use(groups[g], axis, use, axes, groups_on, [&](int groups_here) {
                    use.sharers = std::max(use.sharers, groups_here);
                });
        }
    }
}

// Messages from each member to the next, and from the last to the first.
void go_round(const std::vector<std::vector<int>>& groups, const Axes& axes,
              std::vector<TorusPlace>& places) {
    Links up(axes), down(axes);
    const auto each_hop = [&](const std::vector<int>& group, auto visit) {
        for (std::size_t i = 0; group.size() > 1 && i < group.size(); ++i)
            visit(group[i], group[(i + 1) % group.size()]);
    };
    for (const auto& group : groups)
        each_hop(group, [&](int from, int to) {
            up.each_on_way(from, to, [](std::size_t, int& flows, bool is_up) { flows += is_up; });
            down.each_on_way(from, to,
                             [](std::size_t, int& flows, bool is_up) { flows += !is_up; });
        });
    for (std::size_t g = 0; g < groups.size(); ++g) {
        TorusPlace& place = places[g];
        each_hop(groups[g], [&](int from, int to) {
            place.next_links = std::max(place.next_links, torus_hop(from, to, axes).links);
            std::vector<int> upwards;
            up.each_on_way(from, to, [&](std::size_t, int flows, bool is_up) {
                upwards.push_back(flows);
                if (is_up) place.next_flows = std::max(place.next_flows, flows);
            });
            std::size_t link = 0;
            down.each_on_way(from, to, [&](std::size_t, int flows, bool is_up) {
                if (!is_up) place.next_flows = std::max(place.next_flows, flows);
                place.round_flows = std::max(place.round_flows, flows + upwards[link++]);
            });
        });
    }
}

}  // namespace

TorusHop torus_hop(int from, int to, const Axes& axes) {
    ORRERY_CHECK(from != to, "a way from a device to itself");
    TorusHop hop;
    const Coordinates start = coordinates(from, axes), goal = coordinates(to, axes);
    for (std::size_t axis = 0; axis < axes.size(); ++axis) {
        const int links = std::abs(displacement(start[axis], goal[axis], axes[axis]));
        hop.links += links;
        hop.flows = std::max(hop.flows, links);
    }
    return hop;
}

int torus_links(const Axes& axes) {
    return 2 * static_cast<int>(axes.size());
}

std::vector<TorusPlace> torus_places(const std::vector<std::vector<int>>& groups,
                                     const Axes& axes) {
    ORRERY_CHECK(!axes.empty() && axes.size() <= plan::kMostTorusAxes, "a torus without axes");
    std::vector<TorusPlace> places(groups.size());
    for (std::size_t g = 0; g < groups.size(); ++g) {
        std::size_t corners = 1;
        for (std::size_t axis = 0; axis < axes.size(); ++axis) {
            places[g].axes[axis] = use_of(places_on(axis, groups[g], axes), axes[axis]);
            corners *= static_cast<std::size_t>(places[g].axes[axis].members);
        }
        places[g].box = corners == groups[g].size();
    }
    share_axes(groups, axes, places);
    go_round(groups, axes, places);
    return places;
}

TorusPlace slower(const TorusPlace& a, const TorusPlace& b) {
    TorusPlace both = a;
    both.box = a.box && b.box;
    for (std::size_t axis = 0; axis < both.axes.size(); ++axis) {
        AxisUse& use = both.axes[axis];
        const AxisUse& other = b.axes[axis];
        use.members = std::max(use.members, other.members);
        use.links = std::max(use.links, other.links);
        use.sharers = std::max(use.sharers, other.sharers);
        use.ring = use.ring && other.ring;
    }
    both.next_links = std::max(a.next_links, b.next_links);
    both.next_flows = std::max(a.next_flows, b.next_flows);
    both.round_flows = std::max(a.round_flows, b.round_flows);
    return both;
}

double torus_lanes(const TorusPlace& place) {
    if (!place.box) return 2.0 / place.round_flows;
    double lanes = 0;
    for (const AxisUse& use : place.axes)
        if (use.members > 1) lanes += (use.ring ? 2.0 : 1.0) / use.sharers;
    return lanes;
}

int torus_steps(const TorusPlace& place, int ranks) {
    if (!place.box) return ranks / 2 * place.next_links;
    int steps = 0;
    for (const AxisUse& use : place.axes)
        steps += (use.ring ? use.members / 2 : use.members - 1) * use.links;
    return steps;
}

double torus_exchange(const TorusPlace& place) {
    double busiest = 0;
    for (const AxisUse& use : place.axes) {
        const double n = use.members;
        // Of a ring the mean of the shorter ways round, half of it in each direction; of a row the
        // pairs whose way crosses the middle.
        const double odd = use.members % 2;
        const double passes =
            use.ring ? (n * n - odd) / (4 * n) / 2 : (n - odd) / 2 * ((n + odd) / 2) / n;
        busiest = std::max(busiest, passes * use.sharers);
    }
    return busiest;
}

}  // namespace orrery::sim
