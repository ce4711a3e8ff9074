// Slurm's two shorthands: of hosts ("gpu[07-09,12],login") and of tasks per node ("8(x3),4").
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace orrery::runtime {

// The first host of a list; a range counts up with as many digits as its first number has. None for
// a list that cannot be read. Several brackets in one name are allowed ("rack[1-2]n[01-04]").
std::optional<std::string> first_host(std::string_view hosts);

// How many tasks the node with this index in the list has: "8(x3),4" is 8, 8, 8, 4. None for a list
// that cannot be read, or that ends before the node.
std::optional<std::int64_t> tasks_of_node(std::string_view list, std::int64_t node);

}  // namespace orrery::runtime
