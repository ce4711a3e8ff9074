#include "runtime/launch/launch.hpp"

#include <cstdlib>
#include <vector>

#include <fmt/format.h>

#include "runtime/launch/slurm_lists.hpp"
#include "runtime/launch/whole_number.hpp"

namespace orrery::runtime {
namespace {

constexpr std::int64_t kMostRanks = 1'000'000'000;
// Ports that we derive lie below those that Linux hands out (32768) and above those of services.
constexpr std::int64_t kFirstPort = 20'000;
constexpr std::int64_t kPorts = 12'000;

// Reads a launcher's variables and keeps what is wrong with them.
class Variables {
  public:
    explicit Variables(const VariableLookup& lookup) : lookup_(lookup) {}

    std::optional<std::string> find(const std::string& name) const { return lookup_(name); }
    bool has(const std::string& name) const { return find(name).has_value(); }

    // The first of `names` that is set, read as a number of [least, most].
    std::int64_t number(const std::vector<std::string>& names, std::int64_t least,
                        std::int64_t most, const std::string& meaning) {
        for (const std::string& name : names) {
            const auto text = find(name);
            if (!text) continue;
            const auto value = whole_number(*text);
            if (value && *value >= least && *value <= most) return *value;
            fault("{}={}: {} is needed, from {} to {}", name, *text, meaning, least, most);
            return least;
        }
        fault("{} is not set: {} is needed", fmt::join(names, " or "), meaning);
        return least;
    }

    template <typename... Values>
    void fault(fmt::format_string<Values...> format, const Values&... values) {
        faults_ += "\n  " + fmt::vformat(format, fmt::make_format_args(values...));
        ++count_;
    }

    std::size_t faults() const { return count_; }
    void finish(const char* launcher) const {
        if (count_ > 0)
            throw LaunchError(
                fmt::format("the variables of {} do not say which rank of what run this process "
                            "is:{}",
                            launcher, faults_));
    }

  private:
    const VariableLookup& lookup_;
    std::string faults_;
    std::size_t count_ = 0;
};

std::int64_t port_of(std::int64_t job) {
    return kFirstPort + job % kPorts;
}

// Names as a job id: FNV-1a, the same on every rank and machine.
std::int64_t number_of(const std::string& name) {
    std::uint32_t hash = 2'166'136'261U;
    for (const char letter : name)
        hash = (hash ^ static_cast<unsigned char>(letter)) * 16'777'619U;
    return static_cast<std::int64_t>(hash);
}

// MASTER_ADDR and MASTER_PORT, where they are set, are the user's wish under every launcher.
void wish_for_meeting_point(Variables& variables, Launch& launch) {
    if (const auto host = variables.find("MASTER_ADDR")) launch.host = *host;
    if (variables.has("MASTER_PORT"))
        launch.port =
            variables.number({"MASTER_PORT"}, 1, 65'535, "the port where rank 0 waits for others");
}

// Held only where the numbers themselves are sound.
void check_order(Variables& variables, const Launch& launch) {
    if (variables.faults() > 0) return;
    if (launch.rank >= launch.size)
        variables.fault("rank {} of {}: a rank below the number of ranks is needed", launch.rank,
                        launch.size);
    if (launch.local_rank >= launch.local_size)
        variables.fault("rank {} of {} on this node: one below their number is needed",
                        launch.local_rank, launch.local_size);
    if (launch.local_size > launch.size)
        variables.fault("{} ranks on this node, of {} in all: no more than all are needed",
                        launch.local_size, launch.size);
}

Launch of_torchrun(Variables& variables) {
    Launch launch;
    launch.launcher = Launcher::torchrun;
    launch.rank = variables.number({"RANK"}, 0, kMostRanks, "the number of this rank");
    launch.size = variables.number({"WORLD_SIZE"}, 1, kMostRanks, "the number of ranks");
    launch.local_rank = variables.number({"LOCAL_RANK"}, 0, kMostRanks,
                                         "the number of this rank among those of its node");
    launch.local_size =
        variables.number({"LOCAL_WORLD_SIZE"}, 1, kMostRanks, "the number of ranks on this node");
    check_order(variables, launch);
    wish_for_meeting_point(variables, launch);
    if (!variables.has("MASTER_ADDR"))
        variables.fault("MASTER_ADDR is not set: the host of rank 0 is needed");
    if (!variables.has("MASTER_PORT"))
        variables.fault("MASTER_PORT is not set: the port where rank 0 waits for others is needed");
    variables.finish("torchrun");
    return launch;
}

Launch of_open_mpi(Variables& variables) {
    Launch launch;
    launch.launcher = Launcher::open_mpi;
    const std::string world = "OMPI_COMM_WORLD_";
    launch.rank = variables.number({world + "RANK"}, 0, kMostRanks, "the number of this rank");
    launch.size = variables.number({world + "SIZE"}, 1, kMostRanks, "the number of ranks");
    launch.local_rank = variables.number({world + "LOCAL_RANK"}, 0, kMostRanks,
                                         "the number of this rank among those of its node");
    launch.local_size =
        variables.number({world + "LOCAL_SIZE"}, 1, kMostRanks, "the number of ranks on this node");
    check_order(variables, launch);
    if (launch.local_size == launch.size) launch.host = "127.0.0.1";
    // Of Open MPI's own name for the job, so that two on one node do not meet.
    launch.port = port_of(number_of(variables.find("PMIX_NAMESPACE").value_or("")));
    wish_for_meeting_point(variables, launch);
    variables.finish("Open MPI");
    return launch;
}

std::int64_t slurm_tasks_of_node(Variables& variables) {
    const std::int64_t node =
        variables.has("SLURM_NODEID")
            ? variables.number({"SLURM_NODEID"}, 0, kMostRanks, "the number of this node")
            : 0;
    for (const char* name : {"SLURM_STEP_TASKS_PER_NODE", "SLURM_TASKS_PER_NODE"}) {
        const auto list = variables.find(name);
        if (!list) continue;
        if (const auto tasks = tasks_of_node(*list, node)) return *tasks;
        variables.fault("{}={}: the number of tasks on node {} is needed, as in 8(x3),4", name,
                        *list, node);
        return 1;
    }
    return variables.number({"SLURM_NTASKS_PER_NODE"}, 1, kMostRanks,
                            "the number of tasks on this node");
}

std::string slurm_first_host(Variables& variables) {
    const auto hosts = variables.find("SLURM_STEP_NODELIST");
    if (!hosts) {
        variables.fault("SLURM_STEP_NODELIST is not set: the host of rank 0 is needed");
        return "";
    }
    const auto host = first_host(*hosts);
    if (!host) variables.fault("SLURM_STEP_NODELIST={}: a list of hosts is needed", *hosts);
    return host.value_or("");
}

Launch of_slurm(Variables& variables) {
    Launch launch;
    launch.launcher = Launcher::slurm;
    launch.rank = variables.number({"SLURM_PROCID"}, 0, kMostRanks, "the number of this task");
    launch.size = variables.number({"SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"}, 1, kMostRanks,
                                   "the number of tasks");
    launch.local_rank = variables.number({"SLURM_LOCALID"}, 0, kMostRanks,
                                         "the number of this task among those of its node");
    launch.local_size = slurm_tasks_of_node(variables);
    check_order(variables, launch);
    if (!variables.has("MASTER_ADDR")) launch.host = slurm_first_host(variables);
    if (!variables.has("MASTER_PORT")) {
        const std::int64_t job =
            variables.number({"SLURM_JOB_ID"}, 0, kMostRanks * 4, "the number of the job");
        const std::int64_t step =
            variables.number({"SLURM_STEP_ID"}, 0, kMostRanks * 4, "the number of the step");
        launch.port = port_of(job * 61 + step);  // steps of one job may run side by side
    }
    wish_for_meeting_point(variables, launch);
    variables.finish("Slurm");
    return launch;
}

bool is_slurm_task(const Variables& variables) {
    const std::string step = variables.find("SLURM_STEP_ID").value_or("");
    // The shell of salloc and the script of sbatch are steps with these numbers.
    return variables.has("SLURM_PROCID") && !step.empty() && step != "4294967290" &&
           step != "4294967291";
}

}  // namespace

VariableLookup process_environment() {
    return [](const std::string& name) -> std::optional<std::string> {
        const char* value = std::getenv(name.c_str());
        if (value == nullptr || *value == '\0') return std::nullopt;
        return value;
    };
}

std::optional<Launch> launch_of_environment(const VariableLookup& lookup) {
    Variables variables(lookup);
    if (variables.has("RANK") || variables.has("LOCAL_RANK")) return of_torchrun(variables);
    if (variables.has("OMPI_COMM_WORLD_RANK") || variables.has("OMPI_COMM_WORLD_SIZE"))
        return of_open_mpi(variables);
    if (is_slurm_task(variables)) return of_slurm(variables);
    for (const char* name : {"PMI_RANK", "PMIX_RANK"})
        if (variables.has(name))
            throw LaunchError(
                fmt::format("{}={}: started by a launcher that is not known; known are torchrun, "
                            "Open MPI's mpirun and Slurm's srun",
                            name, *variables.find(name)));
    return std::nullopt;
}

}  // namespace orrery::runtime
