// Logical processors by number, as the kernel lists them in /sys and /proc: "0-3,8". The kernel
// calls them CPUs; here, as in its taskset and numactl, a core with two hyperthreads is two.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace orrery::runtime {

using CpuList = std::vector<int>;  // ascending, each once

// Empty where the text is no such list.
CpuList parse_cpu_list(std::string_view text);

// "0-3,8"; "" of none.
std::string cpu_list_text(const CpuList& cpus);

// What is in both.
CpuList in_both(const CpuList& a, const CpuList& b);

}  // namespace orrery::runtime
