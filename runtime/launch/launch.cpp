#include "runtime/launch/launch.hpp"

#include <cstdlib>
#include <fstream>
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

// The name that a launcher gave the run, and the secret that the user did.
void name_run(Variables& variables, Launch& launch, const std::vector<std::string>& names) {
    launch.run = name(launch.launcher);
    for (const std::string& each : names)
        launch.run += '\n' + variables.find(each).value_or("");
    if (const auto secret = variables.find("ORRERY_RUN_SECRET")) launch.secret = *secret;
    const auto path = variables.find("ORRERY_RUN_SECRET_FILE");
    if (!path) return;
    std::ifstream file(*path, std::ios::binary);
    constexpr std::size_t kMost = 4096;
    std::string secret(kMost, '\0');
    file.read(secret.data(), kMost);
    secret.resize(static_cast<std::size_t>(file.gcount()));
    while (!secret.empty() && (secret.back() == '\n' || secret.back() == '\r'))
        secret.pop_back();
    if (secret.empty()) variables.fault("ORRERY_RUN_SECRET_FILE={}: no secret can be read", *path);
    launch.secret = secret;
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
    name_run(variables, launch, {"TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT"});
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
    name_run(variables, launch, {"PMIX_NAMESPACE"});
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
    name_run(variables, launch, {"SLURM_JOB_ID", "SLURM_STEP_ID"});
    variables.finish("Slurm");
    return launch;
}

bool is_slurm_task(const Variables& variables) {
    const std::string step = variables.find("SLURM_STEP_ID").value_or("");
    // The shell of salloc and the script of sbatch are steps with these numbers.
    return variables.has("SLURM_PROCID") && !step.empty() && step != "4294967290" &&
           step != "4294967291";
}

// What a launcher says of this process, before all of it is read.
struct Claim {
    Launcher launcher = Launcher::torchrun;
    std::string rank_name, size_name;                 // of its variables
    std::int64_t rank = 0, size = 0, local_size = 0;  // −1: it does not say
};

std::int64_t claimed(const Variables& variables, const std::string& name) {
    return whole_number(variables.find(name).value_or("")).value_or(-1);
}

Claim claim_of(Launcher launcher, const Variables& variables, std::string rank, std::string size,
               std::int64_t local_size) {
    Claim claim{launcher, std::move(rank), std::move(size), 0, 0, local_size};
    claim.rank = claimed(variables, claim.rank_name);
    claim.size = claimed(variables, claim.size_name);
    return claim;
}

// Innermost first.
std::vector<Claim> claims_of(const Variables& variables) {
    std::vector<Claim> claims;
    if (variables.has("RANK") || variables.has("LOCAL_RANK"))
        claims.push_back(claim_of(Launcher::torchrun, variables, "RANK", "WORLD_SIZE",
                                  claimed(variables, "LOCAL_WORLD_SIZE")));
    const std::string world = "OMPI_COMM_WORLD_";
    if (variables.has(world + "RANK") || variables.has(world + "SIZE"))
        claims.push_back(claim_of(Launcher::open_mpi, variables, world + "RANK", world + "SIZE",
                                  claimed(variables, world + "LOCAL_SIZE")));
    if (is_slurm_task(variables)) {
        const bool of_step = variables.has("SLURM_STEP_NUM_TASKS");
        Variables reading = variables;
        claims.push_back(claim_of(Launcher::slurm, variables, "SLURM_PROCID",
                                  of_step ? "SLURM_STEP_NUM_TASKS" : "SLURM_NTASKS",
                                  slurm_tasks_of_node(reading)));
    }
    return claims;
}

// Whether the processes of `outer` are what started those of `inner`: torchrun's agents, or
// mpirun's daemons, of which Slurm has one on a node, and the nodes that mpirun itself is not on.
bool started(const Claim& outer, const Claim& inner) {
    if (inner.local_size < 1 || outer.rank < 0 || outer.size < 0) return false;
    if (inner.launcher == Launcher::open_mpi)
        return outer.local_size == 1 && outer.size <= inner.size / inner.local_size;
    return outer.size * inner.local_size == inner.size &&
           outer.rank == inner.rank / inner.local_size;
}

std::string told(const Claim& claim, const Variables& variables) {
    const auto variable = [&](const std::string& name) {
        return name + (variables.has(name) ? "=" + *variables.find(name) : " is not set");
    };
    return fmt::format("\n  {}: {}, {}", name(claim.launcher), variable(claim.rank_name),
                       variable(claim.size_name));
}

void require_agreement(const std::vector<Claim>& claims, const Variables& variables) {
    std::string all;
    bool agree = true;
    for (const Claim& claim : claims) {
        const Claim& inner = claims.front();
        const bool same = claim.rank == inner.rank && claim.size == inner.size;
        agree = agree && (same || started(claim, inner));
        all += told(claim, variables);
    }
    if (!agree)
        throw LaunchError(fmt::format(
            "launchers do not agree on which rank of how many this process is:{}\n"
            "say which one counts: --launcher torchrun, open-mpi or slurm; none for all ranks in "
            "this process",
            all));
}

Launch read_launch(Launcher launcher, Variables& variables) {
    switch (launcher) {
        case Launcher::torchrun:
            return of_torchrun(variables);
        case Launcher::open_mpi:
            return of_open_mpi(variables);
        case Launcher::slurm:
            break;
    }
    return of_slurm(variables);
}

}  // namespace

std::string name(Launcher launcher) {
    switch (launcher) {
        case Launcher::torchrun:
            return "torchrun";
        case Launcher::open_mpi:
            return "Open MPI";
        case Launcher::slurm:
            break;
    }
    return "Slurm";
}

VariableLookup process_environment() {
    return [](const std::string& name) -> std::optional<std::string> {
        const char* value = std::getenv(name.c_str());
        if (value == nullptr || *value == '\0') return std::nullopt;
        return value;
    };
}

std::optional<Launch> launch_of_environment(const VariableLookup& lookup,
                                            std::optional<Launcher> only) {
    Variables variables(lookup);
    if (only) return read_launch(*only, variables);
    const std::vector<Claim> claims = claims_of(variables);
    if (!claims.empty()) {
        require_agreement(claims, variables);
        return read_launch(claims.front().launcher, variables);
    }
    for (const char* name : {"PMI_RANK", "PMIX_RANK"})
        if (variables.has(name))
            throw LaunchError(
                fmt::format("{}={}: started by a launcher that is not known; known are torchrun, "
                            "Open MPI's mpirun and Slurm's srun",
                            name, *variables.find(name)));
    return std::nullopt;
}

}  // namespace orrery::runtime
