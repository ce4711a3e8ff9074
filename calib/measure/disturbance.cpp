#include "calib/measure/disturbance.hpp"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <fstream>
#include <string>
#include <thread>

namespace orrery::measure {
namespace {

constexpr double kQuietShare = 0.05;

// That cores were busy, stolen time included; 0 where the system does not say. Columns of
// /proc/stat: user, nice, system, idle, iowait, irq, softirq, steal (proc(5)); guests are in user.
double machine_seconds() {
    std::ifstream file("/proc/stat");
    std::string name;
    file >> name;
    double ticks = 0;
    for (int column = 0; column < 8; ++column) {
        double value = 0;
        if (!(file >> value)) return 0;
        const bool idle = column == 3 || column == 4;
        if (!idle) ticks += value;
    }
    return ticks / static_cast<double>(sysconf(_SC_CLK_TCK));
}

double own_seconds() {
    timespec now{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

double clock_seconds() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch())
        .count();
}

double all_cores() {
    return std::max(1U, std::thread::hardware_concurrency());
}

}  // namespace

std::int64_t preemptions() {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_nivcsw;
}

OtherWork::OtherWork()
    : machine_s_(machine_seconds()), own_s_(own_seconds()), began_s_(clock_seconds()) {}

double OtherWork::seconds() const {
    const double own = own_seconds() - own_s_;
    return std::max(0.0, machine_seconds() - machine_s_ - own);
}

double OtherWork::cores() const {
    const double elapsed = clock_seconds() - began_s_;
    return elapsed > 0 ? seconds() / elapsed : 0;
}

bool OtherWork::disturbs() const {
    const double tick = 1.0 / static_cast<double>(sysconf(_SC_CLK_TCK));
    const double all = all_cores() * (clock_seconds() - began_s_);
    return seconds() > std::max(2 * tick * all_cores(), kQuietShare * all);
}

}  // namespace orrery::measure
