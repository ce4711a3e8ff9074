#include "plan/scenario/import/stage_layout.hpp"

#include <algorithm>
#include <charconv>
#include <string>

namespace orrery::plan::imports {
namespace {

constexpr std::size_t kLongest = 1'000'000;  // letters: of no pipeline's

// Without repetitions. Groups do not nest.
class Expansion {
  public:
    explicit Expansion(std::string_view text) : rest_(text) {}

    std::optional<std::string> run() {
        std::string all;
        while (!rest_.empty()) {
            const std::optional<std::string> unit = next_unit();
            const std::optional<std::size_t> times = unit ? next_count() : std::nullopt;
            if (!times || all.size() + unit->size() * *times > kLongest) return std::nullopt;
            for (std::size_t i = 0; i < *times; ++i)
                all += *unit;
        }
        return all;
    }

  private:
    // A letter, or what stands in parentheses, where letters may repeat, too.
    std::optional<std::string> next_unit() {
        if (rest_.front() != '(') return std::string(take(1));
        const std::size_t end = rest_.find(')');
        if (end == std::string_view::npos) return std::nullopt;
        return Expansion(take(end + 1).substr(1, end - 1)).run();
    }

    // 1 where none is said.
    std::optional<std::size_t> next_count() {
        if (rest_.empty() || rest_.front() != '*') return 1;
        take(1);
        std::size_t times = 0;
        const auto [end, fault] = std::from_chars(rest_.begin(), rest_.end(), times);
        if (fault != std::errc()) return std::nullopt;
        take(static_cast<std::size_t>(end - rest_.begin()));
        return std::min(times, kLongest + 1);
    }

    std::string_view take(std::size_t count) {
        const std::string_view taken = rest_.substr(0, count);
        rest_.remove_prefix(count);
        return taken;
    }

    std::string_view rest_;
};

std::vector<std::string> stages_of(const std::string& letters) {
    std::vector<std::string> stages(1);
    for (const char letter : letters) {
        if (letter == '|')
            stages.emplace_back();
        else if (letter != ',')
            stages.back() += letter;
    }
    return stages;
}

std::int64_t count_of(const std::string& stage, char letter) {
    return std::count(stage.begin(), stage.end(), letter);
}

}  // namespace

std::optional<StageLayout> read_stage_layout(std::string_view text) {
    const std::optional<std::string> letters = Expansion(text).run();
    if (!letters || letters->find_first_not_of("EtmL|,") != std::string::npos) return std::nullopt;
    const std::vector<std::string> stages = stages_of(*letters);
    const bool has_ends = stages.front().starts_with('E') && stages.back().ends_with('L') &&
                          count_of(*letters, 'E') == 1 && count_of(*letters, 'L') == 1;
    StageLayout layout;
    layout.mtp_layers = count_of(stages.back(), 'm');
    if (!has_ends || count_of(*letters, 'm') != layout.mtp_layers) return std::nullopt;
    for (const std::string& stage : stages)
        layout.layers.push_back(count_of(stage, 't'));
    return layout;
}

}  // namespace orrery::plan::imports
