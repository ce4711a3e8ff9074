#include "runtime/launch/bind_thread.hpp"

#include <linux/mempolicy.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstring>
#include <memory>
#include <thread>

#include <fmt/format.h>

#include "plan/check.hpp"

namespace orrery::runtime {
namespace {

// A set of so many cores: the type of fixed size knows 1,024.
class CpuSet {
  public:
    explicit CpuSet(int cores) : size_(CPU_ALLOC_SIZE(cores)), set_(CPU_ALLOC(cores)) {
        ORRERY_CHECK(set_ != nullptr, "memory for a set of cores");
        CPU_ZERO_S(size_, set_.get());
    }
    std::size_t size() const { return size_; }
    cpu_set_t* get() const { return set_.get(); }
    void add(int core) { CPU_SET_S(static_cast<std::size_t>(core), size_, set_.get()); }
    bool has(int core) const {
        return CPU_ISSET_S(static_cast<std::size_t>(core), size_, set_.get()) != 0;
    }

  private:
    struct Free {
        void operator()(cpu_set_t* set) const { CPU_FREE(set); }
    };
    std::size_t size_;
    std::unique_ptr<cpu_set_t, Free> set_;
};

std::string error_of(const char* call) {
    return fmt::format("{}: {}", call, std::strerror(errno));
}

// Without libnuma, whose part in this is these two calls.
std::string prefer_node(int node) {
    int policy = MPOL_DEFAULT;
    if (syscall(SYS_get_mempolicy, &policy, nullptr, 0UL, nullptr, 0UL) != 0)
        return error_of("get_mempolicy");
    if (policy != MPOL_DEFAULT) return "";
    constexpr std::size_t kBits = sizeof(unsigned long) * CHAR_BIT;
    const auto bit = static_cast<std::size_t>(node);
    std::vector<unsigned long> nodes(bit / kBits + 1, 0);
    nodes.back() = 1UL << bit % kBits;
    // The kernel reads one bit less than it is told.
    if (syscall(SYS_set_mempolicy, MPOL_PREFERRED, nodes.data(), nodes.size() * kBits + 1) != 0)
        return error_of("set_mempolicy");
    return "";
}

}  // namespace

// The kernel refuses a set that is smaller than its own.
CpuList allowed_cpus() {
    constexpr int kFirst = 1024, kMost = 1 << 20;
    for (int cores = kFirst; cores <= kMost; cores *= 2) {
        const CpuSet set(cores);
        if (sched_getaffinity(0, set.size(), set.get()) != 0) continue;
        CpuList cpus;
        for (int core = 0; core < cores; ++core)
            if (set.has(core)) cpus.push_back(core);
        return cpus;
    }
    return {};
}

Refused bind_thread(const RankBinding& rank) {
    Refused refused;
    if (rank.cpus.empty()) return refused;
    CpuSet set(rank.cpus.back() + 1);
    for (const int cpu : rank.cpus)
        set.add(cpu);
    if (sched_setaffinity(0, set.size(), set.get()) != 0) {
        refused.cores = error_of("sched_setaffinity");
        return refused;
    }
    if (rank.nodes.size() == 1) refused.memory = prefer_node(rank.nodes.front());
    return refused;
}

// Each time a thread of its own is bound, and ends.
Binding tried(plan::BindTo asked, Binding binding) {
    for (const RankBinding& rank : binding.ranks) {
        Refused refused;
        std::thread([&] { refused = bind_thread(rank); }).join();
        if (!refused.memory.empty()) binding.memory_problem = refused.memory;
        if (refused.cores.empty()) continue;
        const std::string why = fmt::format(
            "the system does not let this process choose its cores ({})", refused.cores);
        if (asked == plan::BindTo::numa) throw BindingError("run.bind \"numa\": " + why);
        binding.ranks.clear();
        binding.why_none = why;
        break;
    }
    return binding;
}

Processors processors_of_process(const std::string& root) {
    return {numa_nodes(root), cpus_of_cpuset(root), allowed_cpus()};
}

}  // namespace orrery::runtime
