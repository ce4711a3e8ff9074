#include "runtime/launch/nccl_variables.hpp"

#include <cstdlib>

#include <fmt/format.h>

namespace orrery::runtime {
namespace {

struct Setting {
    const char* key;
    const char* variable;
    std::string value;  // empty: the scenario is silent
};

std::string number(std::int64_t value, std::int64_t silent) {
    return value == silent ? "" : std::to_string(value);
}

std::vector<Setting> settings_of(const plan::NcclSettings& nccl) {
    const plan::NcclSettings silent;
    return {{"ib_timeout", "NCCL_IB_TIMEOUT", number(nccl.ib_timeout, silent.ib_timeout)},
            {"ib_retry_cnt", "NCCL_IB_RETRY_CNT", number(nccl.ib_retry_cnt, silent.ib_retry_cnt)},
            {"ib_hca", "NCCL_IB_HCA", nccl.ib_hca},
            {"socket_interface", "NCCL_SOCKET_IFNAME", nccl.socket_interface},
            {"algorithm", "NCCL_ALGO", nccl.algorithm},
            {"protocol", "NCCL_PROTO", nccl.protocol},
            {"debug", "NCCL_DEBUG", nccl.debug},
            {"ib_gid_index", "NCCL_IB_GID_INDEX", number(nccl.ib_gid_index, silent.ib_gid_index)},
            {"ib_tc", "NCCL_IB_TC", number(nccl.ib_tc, silent.ib_tc)},
            {"ib_sl", "NCCL_IB_SL", number(nccl.ib_sl, silent.ib_sl)},
            {"net_gdr_level", "NCCL_NET_GDR_LEVEL", nccl.net_gdr_level},
            {"cross_nic", "NCCL_CROSS_NIC", number(nccl.cross_nic, silent.cross_nic)},
            {"nvls_enable", "NCCL_NVLS_ENABLE", number(nccl.nvls_enable, silent.nvls_enable)},
            {"collnet_enable", "NCCL_COLLNET_ENABLE",
             number(nccl.collnet_enable, silent.collnet_enable)},
            {"min_ctas", "NCCL_MIN_CTAS", number(nccl.min_ctas, silent.min_ctas)},
            {"max_ctas", "NCCL_MAX_CTAS", number(nccl.max_ctas, silent.max_ctas)}};
}

}  // namespace

NcclVariables nccl_variables(const plan::NcclSettings& settings,
                             const VariableLookup& environment) {
    NcclVariables result;
    for (const Setting& setting : settings_of(settings)) {
        const auto found = environment(setting.variable);
        if (setting.value.empty()) {
            if (found)
                result.lines.push_back(
                    fmt::format("{}={} (the environment's)", setting.variable, *found));
            continue;
        }
        const bool differs = found && *found != setting.value;
        if (!found || differs) result.exported.push_back({setting.variable, setting.value});
        result.lines.push_back(
            fmt::format("{}={} (run.nccl.{}{})", setting.variable, setting.value, setting.key,
                        differs ? fmt::format(", instead of the environment's {}", *found) : ""));
    }
    return result;
}

void export_variables(const std::vector<Variable>& variables) {
    for (const Variable& variable : variables)
        setenv(variable.name.c_str(), variable.value.c_str(), 1);
}

}  // namespace orrery::runtime
