// A graph whose nodes start at the last of several ends, each so long after the start of another
// node, made smaller before it is walked: nodes form parts, and one that is waited for within its
// part alone is taken out; those that wait for it take over what it waits for. Whatever is asked
// for stays as it is, to the picosecond. Parts that are alike share the delays that are made so.
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "sim/engine/time.hpp"

namespace orrery::sim {

// So long after the start of a node.
struct PathEnd {
    std::uint32_t node = 0;
    std::uint32_t delay = 0;  // number; 0: none
    auto operator<=>(const PathEnd&) const = default;
};

// What a node waits for, mostly the op before it and a transfer; more meet in nodes of their own.
// Unused places name node 0, the start of time, and no delay.
inline constexpr std::size_t kPathEnds = 2;
using PathNode = std::array<PathEnd, kPathEnds>;

// A delay made of two others: their sum, or the larger of both.
struct DerivedDelay {
    std::uint32_t a = 0, b = 0;
    bool sum = false;
    auto operator<=>(const DerivedDelay&) const = default;
};

class PathDraft {
  public:
    // By node: what it waits for, and the part that it belongs to; 0: it stays.
    PathDraft(std::vector<std::vector<PathEnd>> before, std::vector<std::uint32_t> part)
        : before_(std::move(before)), part_(std::move(part)) {}

    // Delays below `delays` are given; those derived are numbered from there, each after those that
    // it is made of. `asked` is of the draft, and of the result afterwards. False: a cycle.
    bool shorten(std::uint32_t delays, std::vector<std::vector<PathEnd>*> asked);

    // Breadth first, so that nodes in a row seldom follow one another; each after those it names.
    const std::vector<PathNode>& nodes() const { return nodes_; }
    const std::vector<DerivedDelay>& derived() const { return derived_; }

  private:
    std::uint32_t derive(std::uint32_t a, std::uint32_t b, bool sum);
    void merge(std::vector<PathEnd>& ends);
    bool order();
    bool take_out(std::uint32_t node);
    void make_room();
    void place(const std::vector<std::vector<PathEnd>*>& asked);

    std::vector<std::vector<PathEnd>> before_;
    std::vector<std::uint32_t> part_;
    std::vector<std::vector<std::uint32_t>> after_;
    std::vector<std::uint32_t> order_;
    std::vector<bool> gone_;
    std::vector<PathNode> nodes_;
    std::uint32_t given_ = 0;
    std::vector<DerivedDelay> derived_;
    std::map<DerivedDelay, std::uint32_t> numbers_;
};

}  // namespace orrery::sim
