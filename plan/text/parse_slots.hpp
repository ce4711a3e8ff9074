// Reading fields over a run of alike things, and where the tensors of uses lie. Internal to
// plan/text.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string_view>
#include <vector>

#include "plan/text/reader.hpp"
#include "plan/text/spelling.hpp"

namespace orrery::plan {

inline constexpr std::int64_t kMostIndex = std::int64_t{1} << 30;

// A field over a run: it steps evenly from its first to its last value.
struct Field {
    std::int64_t first = -1;
    std::int64_t step = 0;
    std::int64_t at(std::int64_t n) const { return first + step * n; }
    std::int32_t index_at(std::int64_t n) const { return static_cast<std::int32_t>(at(n)); }
};

// "3" or "3..9" over a run of `count`; `expected` says what of.
Field read_field(Reader& reader, std::int64_t count, std::string_view expected, std::int64_t most);

bool at_resident(const Reader& reader);  // "r12", "r-"

GroupKind read_sharing_group(Reader& reader);

// A slot over a run of uses: its place steps evenly, its residents may take turns.
struct SlotRun {
    Slot first;
    std::int32_t second_resident = -1;
    Field piece{0, 0}, offset{0, 0};
    Slot at(std::int64_t n) const;
};

class SlotReader {
  public:
    // `resident` reads the number of a resident, which may be listed further down.
    SlotReader(Reader& reader, const Plan& plan, std::function<std::int32_t()> resident)
        : reader_(reader), plan_(plan), resident_(std::move(resident)) {}

    // By tensor of the block, for a run of `count` uses; empty: they are not bound to memory.
    std::vector<SlotRun> read(std::int32_t block, std::int64_t count);

  private:
    const std::vector<TensorReference>& references_to(std::int32_t block);
    void expect_reference(const TensorReference& reference);
    SlotRun read_slot(std::int64_t count);

    Reader& reader_;
    const Plan& plan_;
    std::function<std::int32_t()> resident_;
    std::map<std::int32_t, std::vector<TensorReference>> references_;  // by block
};

}  // namespace orrery::plan
