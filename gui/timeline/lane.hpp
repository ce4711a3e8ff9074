// One row of boxes: spans in order of time of which none overlaps another, with sums up to each
// block of them, so that any stretch is added up exactly from two of these sums and a few spans,
// however many lie between.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "gui/timeline/kind.hpp"
#include "gui/timeline/viewport.hpp"

namespace orrery::gui {

struct Span {
    Picoseconds from = 0;
    Picoseconds to = 0;
    // On a lane of ops the op id; on one of actions and on a rank's own row the step of the
    // program, −1 for waiting.
    std::int32_t index = -1;
    Kind kind = Kind::other;
    bool operator==(const Span&) const = default;
};

// In order of time; where one begins before the one before it has ended, it begins where that
// ends. Those of one index and kind without a gap between them become one.
std::vector<Span> one_after_another(std::vector<Span> spans);

class Lane {
  public:
    Lane() = default;
    // Ascending and apart from each other (ORRERY_CHECK).
    Lane(std::string name, std::vector<Span> spans);

    const std::string& name() const { return name_; }
    const std::vector<Span>& spans() const { return spans_; }

    // Number of the first span that ends after `time`, of the first that starts at or after it;
    // as many as there are where none does. `hint`: none before this one can be it.
    std::size_t first_ending_after(Picoseconds time) const;
    std::size_t first_starting_at(Picoseconds time, std::size_t hint = 0) const;

    // Time by kind of the spans begin to end − 1.
    KindSums sums(std::size_t begin, std::size_t end) const;
    // Time by kind within [from, to), spans cut where it begins and ends.
    KindSums within(Picoseconds from, Picoseconds to) const;

    // Kinds that it has, in their order.
    const std::vector<Kind>& kinds() const { return kinds_; }
    // Time by these kinds within each of many stretches, as within() says of one: the first's by
    // kind, then the next's. Meant for stretches in order of time, as they are painted: each is
    // looked for from where the one before it was. Where there are more spans than a processor
    // keeps at hand, it fetches those of several stretches at once.
    std::vector<Picoseconds> within(const std::vector<Stretch>& stretches) const;

  private:
    static constexpr std::size_t kBlock = 16;

    // The last block that begins before `time`, else the first. `near`: looked for from there.
    std::size_t block_of(Picoseconds time, std::size_t near) const;
    // Asks for what the next needs, without waiting for it.
    void fetch(std::size_t block) const;
    // Time by kinds_ before a moment in that block.
    void put_before(Picoseconds time, std::size_t block, Picoseconds* sums) const;

    std::string name_;
    std::vector<Span> spans_;
    std::vector<Kind> kinds_;
    std::array<std::uint8_t, kKinds> place_{};  // of a kind in these
    std::vector<Picoseconds> begins_;           // by block, of its first span
    std::vector<Picoseconds> before_;           // by block and kind: sums of all before its first
};

}  // namespace orrery::gui
