#include "plan/scenario/import/launch.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

namespace orrery::plan::imports {
namespace {

using Words = std::vector<ShellWord>;

// Programs that start others, as the words before the training program name them.
constexpr const char* kLaunchers[] = {"torchrun",
                                      "srun",
                                      "mpirun",
                                      "mpiexec",
                                      "deepspeed",
                                      "torch.distributed.launch",
                                      "torch.distributed.run"};

bool ends_with(const std::string& text, const std::string& end) {
    return text.size() >= end.size() &&
           text.compare(text.size() - end.size(), end.size(), end) == 0;
}

bool is_program(const ShellWord& word) {
    return ends_with(word.text, ".py");
}

// A negative number is a value.
bool is_option(const ShellWord& word) {
    const std::string& text = word.text;
    if (text.size() < 2 || text[0] != '-') return false;
    return text[1] == '-' || (text[1] >= 'a' && text[1] <= 'z') ||
           (text[1] >= 'A' && text[1] <= 'Z');
}

// `sh -c "python pretrain_gpt.py …"`: the command within the word. Its variables are expanded.
Words unwrapped(const Words& command) {
    for (const ShellWord& word : command) {
        if (word.text.find(".py ") == std::string::npos) continue;
        ShellScript inner = read_shell(word.text);
        if (inner.commands.empty()) continue;
        Words words(command.begin(), command.begin() + (&word - command.data()));
        for (ShellWord& one : inner.commands.back()) {
            one.line = word.line;
            words.push_back(std::move(one));
        }
        return words;
    }
    return command;
}

bool has_program(const Words& command) {
    return std::any_of(command.begin(), command.end(), is_program);
}

bool only_options(const Words& command) {
    return is_option(command.front());
}

// `$EXTRA` behind an option that has its value already: more options, perhaps.
bool is_stray(const ShellWord& word) {
    return word.open && word.text[0] == '$';
}

std::string lines_of(const std::vector<Words>& commands) {
    std::vector<int> lines;
    for (const Words& command : commands)
        lines.push_back(command.front().line);
    return fmt::format("{}", fmt::join(lines, ", "));
}

// Of several programs, those that are told the shape of a model.
void keep_trainings(std::vector<Words>& commands) {
    std::vector<Words> kept;
    for (const Words& command : commands)
        if (std::any_of(command.begin(), command.end(), [](const ShellWord& word) {
                return word.text.rfind("--num-layers", 0) == 0 || word.text == "--hidden-size";
            }))
            kept.push_back(command);
    if (!kept.empty()) commands = std::move(kept);
}

Words chosen(const ShellScript& script) {
    std::vector<Words> found;
    for (const Words& command : script.commands) {
        Words words = unwrapped(command);
        if (has_program(words) || only_options(words)) found.push_back(std::move(words));
    }
    if (found.empty())
        throw ShellError(1, 1,
                         "no command here starts a training program (a word that ends in "
                         ".py, or options alone)");
    if (found.size() > 1) keep_trainings(found);
    if (found.size() > 1)
        throw ShellError(found[1].front().line, 1,
                         fmt::format("{} commands start a program, in lines {}: leave one",
                                     found.size(), lines_of(found)));
    return std::move(found.front());
}

Setting setting_of(std::string key, Words values, int line) {
    Setting setting;
    setting.key = std::move(key);
    setting.line = line;
    for (const ShellWord& value : values)
        setting.open = setting.open || value.open;
    if (values.empty()) {
        setting.value = true;
    } else if (values.size() == 1) {
        setting.value = values[0].text;
    } else {
        setting.value = Json::array();
        for (const ShellWord& value : values)
            setting.value.push_back(value.text);
    }
    return setting;
}

// Options of the launchers, each with its launcher's name in front: before the program a launcher's
// options and its program cannot be told apart but by name.
std::vector<Setting> launcher_options(const Words& words) {
    std::vector<Setting> out;
    std::string launcher;
    Words own;
    const auto finish = [&] {
        for (Setting& setting : split_options(own)) {
            setting.key = launcher + ' ' + setting.key;
            if (setting.value.is_array()) setting.value = setting.value[0];  // then other words
            out.push_back(std::move(setting));
        }
        own.clear();
    };
    for (const ShellWord& word : words) {
        const std::string name = word.text.substr(word.text.rfind('/') + 1);
        if (std::find(std::begin(kLaunchers), std::end(kLaunchers), name) != std::end(kLaunchers)) {
            finish();
            launcher = name == "torch.distributed.launch" || name == "torch.distributed.run"
                           ? "torchrun"
                           : name;
        } else if (!launcher.empty()) {
            own.push_back(word);
        }
    }
    finish();
    return out;
}

}  // namespace

std::vector<Setting> split_options(const Words& words) {
    std::vector<Setting> out;
    for (std::size_t i = 0; i < words.size();) {
        const ShellWord& word = words[i++];
        const std::size_t equals = word.text.find('=');
        Words values;
        if (is_option(word) && equals != std::string::npos && word.text[1] == '-') {
            values.push_back({word.text.substr(equals + 1), word.line, word.open});
            out.push_back(setting_of(word.text.substr(0, equals), values, word.line));
            continue;
        }
        if (is_option(word))
            while (i < words.size() && !is_option(words[i]) &&
                   (values.empty() || !is_stray(words[i])))
                values.push_back(words[i++]);
        out.push_back(setting_of(word.text, std::move(values), word.line));
    }
    return out;
}

Launch find_launch(const ShellScript& script) {
    const Words words = chosen(script);
    const auto program = std::find_if(words.begin(), words.end(), is_program);
    Launch launch;
    if (program == words.end()) {
        launch.options = split_options(words);
        return launch;
    }
    launch.program = *program;
    for (Setting& setting : split_options(script.batch)) {
        setting.key = "#SBATCH " + setting.key;
        launch.launchers.push_back(std::move(setting));
    }
    for (Setting& setting : launcher_options(Words(words.begin(), program)))
        launch.launchers.push_back(std::move(setting));
    launch.options = split_options(Words(program + 1, words.end()));
    return launch;
}

Launched launched_ranks(Sheet& sheet) {
    Launched out;
    const auto count = [&](Sheet::Keys keys) -> std::optional<std::int64_t> {
        const Setting* setting = sheet.find(keys);
        if (setting == nullptr) return std::nullopt;
        out.from += (out.from.empty() ? "" : " × ") + setting->key;
        out.unsettled = out.unsettled || setting->open;
        return setting->open ? std::nullopt : sheet.whole(keys);
    };
    // The innermost one that says how many processes there are decides.
    const auto try_launcher = [&](Sheet::Keys all, Sheet::Keys each, Sheet::Keys nodes) {
        if (out.ranks || out.unsettled) return;
        out.from.clear();
        out.ranks = count(all);
        if (out.ranks) return;
        const auto per_node = count(each);
        const auto of_nodes = count(nodes);
        if (per_node && !out.unsettled) out.ranks = *per_node * of_nodes.value_or(1);
    };
    try_launcher({}, {"torchrun --nproc_per_node", "torchrun --nproc-per-node"},
                 {"torchrun --nnodes"});
    try_launcher({}, {"deepspeed --num_gpus"}, {"deepspeed --num_nodes"});
    try_launcher({"srun --ntasks", "srun -n"}, {"srun --ntasks-per-node"},
                 {"srun --nodes", "srun -N"});
    try_launcher({"mpirun -np", "mpirun -n", "mpiexec -np", "mpiexec -n"}, {}, {});
    try_launcher({"#SBATCH --ntasks", "#SBATCH -n"}, {"#SBATCH --ntasks-per-node"},
                 {"#SBATCH --nodes", "#SBATCH -N"});
    return out;
}

}  // namespace orrery::plan::imports
