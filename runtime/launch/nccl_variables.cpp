#include "runtime/launch/nccl_variables.hpp"

#include <cstdlib>

#include <fmt/format.h>

namespace orrery::runtime {
namespace {

struct Setting {
    const char* key;
    const char* variable;
    std::string value;             // empty: the scenario is silent
    bool by_communicator = false;  // each is made with it; the variable is not to be there
};

std::string number(std::int64_t value, std::int64_t silent) {
    return value == silent ? "" : std::to_string(value);
}

std::vector<Setting> settings_of(const plan::NcclSettings& nccl) {
    const plan::NcclSettings silent;
    const bool grouped = nccl.groups != silent.groups;
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
            {"min_ctas", "NCCL_MIN_CTAS", number(nccl.min_ctas, silent.min_ctas), grouped},
            {"max_ctas", "NCCL_MAX_CTAS", number(nccl.max_ctas, silent.max_ctas), grouped}};
}

// Of all communicators but those of groups that have their own.
void leave_to_communicators(const Setting& setting, const std::optional<std::string>& found,
                            NcclVariables& result) {
    if (found) result.removed.emplace_back(setting.variable);
    if (!setting.value.empty())
        result.lines.push_back(fmt::format(
            "SMs of other communicators, {}: {} (run.nccl.{}{})", setting.key, setting.value,
            setting.key, found ? fmt::format(", instead of {}={}", setting.variable, *found) : ""));
    else if (found)
        result.lines.push_back(fmt::format("SMs of other communicators, {}: {} (the environment's)",
                                           setting.key, *found));
}

void tell_groups(const plan::NcclGroups& groups, std::vector<std::string>& lines) {
    const auto tell = [&](const char* name, const plan::CtaBounds& bounds) {
        if (bounds.min > 0)
            lines.push_back(
                fmt::format("SMs of {0} communicators, min_ctas: {1} "
                            "(run.nccl.groups.{0})",
                            name, bounds.min));
        if (bounds.max > 0)
            lines.push_back(
                fmt::format("SMs of {0} communicators, max_ctas: {1} "
                            "(run.nccl.groups.{0})",
                            name, bounds.max));
    };
    tell("tensor", groups.tensor);
    tell("context", groups.context);
    tell("expert", groups.expert);
    tell("data", groups.data);
    tell("pipeline", groups.pipeline);
}

}  // namespace

NcclVariables nccl_variables(const plan::NcclSettings& settings,
                             const VariableLookup& environment) {
    NcclVariables result;
    for (const Setting& setting : settings_of(settings)) {
        const auto found = environment(setting.variable);
        if (setting.by_communicator) {
            leave_to_communicators(setting, found, result);
            continue;
        }
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
    tell_groups(settings.groups, result.lines);
    return result;
}

void export_variables(const std::vector<Variable>& variables) {
    for (const Variable& variable : variables)
        setenv(variable.name.c_str(), variable.value.c_str(), 1);
}

void remove_variables(const std::vector<std::string>& names) {
    for (const std::string& name : names)
        unsetenv(name.c_str());
}

}  // namespace orrery::runtime
