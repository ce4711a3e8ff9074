#include "tests/runtime/cpu/expert_world.hpp"

#include <algorithm>
#include <cmath>

#include "runtime/random.hpp"

namespace orrery::runtime {

ExpertGroup random_group(const ExpertGroup& sizes, std::int64_t idle, std::uint32_t seed) {
    ExpertGroup group = sizes;
    group.counts.assign(static_cast<std::size_t>(group.ranks * group.experts), 0);
    std::uint64_t drawn = 0;
    for (std::int64_t member = 0; member < group.ranks; ++member) {
        std::vector<std::int32_t>& choices = group.choices.emplace_back();
        for (std::int64_t token = 0; token < group.tokens; ++token) {
            std::vector<std::int32_t> own;
            while (static_cast<std::int64_t>(own.size()) < group.chosen) {
                const double x = std::abs(normal({seed, 5, 0}, drawn++)) / 3;
                const auto expert = static_cast<std::int32_t>(
                    std::min(x, 0.999) * static_cast<double>(group.experts - idle));
                if (std::find(own.begin(), own.end(), expert) == own.end()) own.push_back(expert);
            }
            std::sort(own.begin(), own.end());
            for (const std::int32_t expert : own)
                ++group.counts[static_cast<std::size_t>(member * group.experts + expert)];
            choices.insert(choices.end(), own.begin(), own.end());
        }
    }
    return group;
}

std::vector<ExpertGroup> some_groups() {
    struct Case {
        ExpertGroup sizes;
        std::int64_t idle;
    };
    const std::vector<Case> cases = {
        {{1, 1, 1, 1, 7}, 0},  {{4, 1, 1, 2, 9}, 0},  {{8, 1, 1, 2, 11}, 3}, {{3, 1, 1, 3, 5}, 0},
        {{4, 4, 1, 1, 6}, 1},  {{8, 2, 1, 2, 13}, 0}, {{8, 4, 2, 3, 10}, 2}, {{2, 4, 2, 2, 8}, 0},
        {{6, 6, 3, 2, 21}, 0}, {{1, 2, 2, 1, 4}, 0}};
    std::vector<ExpertGroup> groups;
    std::uint32_t seed = 1;
    for (const Case& one : cases)
        groups.push_back(random_group(one.sizes, one.idle, seed++));
    return groups;
}

std::vector<Sent> permuted_rows(const ExpertGroup& group, std::int64_t member) {
    std::vector<Sent> rows;
    for (std::int64_t expert = 0; expert < group.experts; ++expert)
        for (std::int64_t token = 0; token < group.tokens; ++token)
            for (std::int64_t slot = 0; slot < group.chosen; ++slot)
                if (group.choices[static_cast<std::size_t>(member)]
                                 [static_cast<std::size_t>(token * group.chosen + slot)] == expert)
                    rows.push_back({member, token, slot, expert});
    return rows;
}

namespace {

bool holds(const ExpertGroup& group, std::int64_t member, std::int64_t expert) {
    const std::int64_t each = group.experts / (group.ranks / group.split);
    return expert / each == member / group.split;
}

}  // namespace

std::vector<Sent> received_rows(const ExpertGroup& group, std::int64_t member) {
    std::vector<Sent> rows;
    for (std::int64_t from = 0; from < group.ranks; ++from)
        for (const Sent& row : permuted_rows(group, from))
            if (holds(group, member, row.expert)) rows.push_back(row);
    return rows;
}

std::vector<Sent> grouped_rows(const ExpertGroup& group, std::int64_t member) {
    std::vector<Sent> rows;
    for (std::int64_t expert = 0; expert < group.experts; ++expert)
        for (const Sent& row : received_rows(group, member))
            if (row.expert == expert) rows.push_back(row);
    return rows;
}

std::vector<Returned> returned_rows(const ExpertGroup& group, std::int64_t member) {
    std::vector<Returned> rows;
    for (std::int64_t from = 0; from < group.ranks; ++from)
        for (const Sent& row : permuted_rows(group, member))
            if (holds(group, from, row.expert)) rows.push_back({row, from % group.split});
    return rows;
}

}  // namespace orrery::runtime
