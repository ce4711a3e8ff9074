// What NCCL has been told by its variables, here: by the environment, or by its files. It says
// nothing of a setting that will end a run weeks later, or makes every step slow.
#pragma once

#include <string>
#include <vector>

#include "runtime/machine/machine.hpp"
#include "runtime/machine/requirements.hpp"

namespace orrery::runtime {

// "NAME=VALUE" of this process.
std::vector<std::string> environment_lines();

// As NCCL reads them: the environment before the user's file (NCCL_CONF_FILE, else .nccl.conf in
// HOME) before /etc/nccl.conf, which `root` stands before. By name.
std::vector<NcclSetting> read_nccl_settings(const std::string& root,
                                            const std::vector<std::string>& environment);

// How long an InfiniBand or RoCE connection waits for an answer before NCCL ends the run:
// 4.096 us x 2^timeout for each of the retries (NCCL's user guide, NCCL_IB_TIMEOUT). Infinite where
// `timeout` is 0 or above 31.
double ib_patience_s(int timeout, int retries);

// Settings that are known to end runs, to corrupt sums, or to leave faster links unused.
void advise_on_nccl(const Machine& machine, std::vector<Finding>& advice);

}  // namespace orrery::runtime
