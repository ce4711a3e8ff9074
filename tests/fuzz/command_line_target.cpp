// Shell text with a Megatron-LM command line: read or refused, never worse; and where it is
// read, every option ends up somewhere in the report.
#include <algorithm>

#include "plan/check.hpp"
#include "plan/scenario/import/import.hpp"
#include "plan/scenario/import/launch.hpp"
#include "tests/fuzz/targets.hpp"

namespace orrery::fuzz {
namespace {

using namespace plan::imports;

bool is_named(const Imported& imported, const std::string& key) {
    const auto is_it = [&](const Left& left) { return left.key == key; };
    return std::any_of(imported.ignored.begin(), imported.ignored.end(), is_it) ||
           std::any_of(imported.unsupported.begin(), imported.unsupported.end(), is_it) ||
           std::any_of(
               imported.mapped.begin(), imported.mapped.end(),
               [&](const Mapped& mapped) { return mapped.from.find(key) != std::string::npos; }) ||
           std::any_of(imported.missing.begin(), imported.missing.end(),
                       [&](const Missing& one) { return one.why.find(key) != std::string::npos; });
}

void run(std::string_view input) {
    Wishes wishes;
    wishes.frameworks = {"megatron", "megatron-2021"};
    const Imported imported = import_text(input, "input", Format::megatron, wishes);
    ORRERY_CHECK(
        imported.unreadable == (imported.errors.size() == 1 && imported.errors[0].code == "I001"),
        "unreadable and I001 go together");
    ORRERY_CHECK(!plan::format_text(imported.errors).empty() || imported.errors.empty(),
                 "an error without text");
    if (!imported.errors.empty()) return;
    for (const Setting& option : find_launch(read_shell(input)).options)
        ORRERY_CHECK(is_named(imported, option.key), option.key + " was passed over");
}

std::vector<std::string> seeds() {
    return {
        "--num-layers 2 --hidden-size 64 --num-attention-heads 4 --bf16",
        "A=(--tensor-model-parallel-size 2 # two\n --swiglu)\n"
        "torchrun --nproc_per_node 8 \\\n  --nnodes $((16/8)) pretrain_gpt.py ${A[@]} \"$@\"\n",
        "#SBATCH --nodes=2\nexport N=4\nCMD=\"python -u pretrain_gpt.py --seed ${N:-1} \"\n"
        "srun -n 8 sh -c \"${CMD}\" > log 2>&1 | tee out\n",
        "if [ -z \"$X\" ]; then\n T='a b'\nelse T=`date`; A+=(x); fi\n"
        "mpirun -np 4 python pretrain_gpt.py --lr 1e-4 --fp16 --rampup-batch-size 2 2 30 $T\n",
        "f() { local T=$1; run \"$@\"; }\ncase $X in a|b*) A+=(--swiglu) ;; *) exit ;; esac\n"
        "cat <<-E > f\n\t{\n\tE\nif [[ -n $Y && ${Z:=2} == 2 ]] || (( Z > 1 )); then f x; fi\n"
        "for i in 1 2; do B+=\" --lr $i\"; done\nsh <<EOF\n(python a.py $B ${A[@]})\nEOF\n",
        "--pipeline-model-parallel-size 4 --num-layers 8 --num-virtual-stages-per-pipeline-rank 2"
        " --decoder-first-pipeline-num-layers 2 --context-parallel-size 2 --cp-comm-type a2a p2p"};
}

}  // namespace

const Target kCommandLine = {"command_line", 4096, run, seeds};

}  // namespace orrery::fuzz
