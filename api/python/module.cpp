// The module orrery._orrery: orrery.hpp for Python. What takes time runs on a thread of its own
// without the interpreter's lock, while this one watches for an interrupt.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <atomic>
#include <chrono>
#include <future>
#include <string>
#include <vector>

#include <orrery.hpp>

namespace py = pybind11;

namespace {

py::object loads(const std::string& text) {
    return py::module_::import("json").attr("loads")(text);
}

// A value as JSON text, or nothing where it is none.
py::object parsed(const std::string& text) {
    try {
        return loads(text);
    } catch (py::error_already_set& error) {
        if (!error.matches(PyExc_ValueError)) throw;
        return py::none();
    }
}

// As `--set` takes a value: JSON, and a word that is no JSON as it stands.
std::string value_text(const py::handle& value) {
    if (py::isinstance<py::str>(value)) {
        auto word = value.cast<std::string>();
        const bool reads_as_json = word == "null" || !parsed(word).is_none();
        if (!reads_as_json) return word;
    }
    return py::module_::import("json").attr("dumps")(value).cast<std::string>();
}

std::vector<std::string> overrides_of(const py::object& given) {
    std::vector<std::string> overrides;
    if (given.is_none()) return overrides;
    for (const auto& item : given.attr("items")()) {
        const auto pair = item.cast<py::tuple>();
        overrides.push_back(pair[0].cast<std::string>() + '=' + value_text(pair[1]));
    }
    return overrides;
}

// The same back: what `--set` would make of each.
py::dict overrides_dict(const std::vector<std::string>& overrides) {
    py::dict dict;
    for (const std::string& one : overrides) {
        const std::size_t at = one.find('=');
        const std::string text = one.substr(at + 1);
        const py::object value = parsed(text);
        const bool is_json = text == "null" || !value.is_none();
        dict[py::str(one.substr(0, at))] = is_json ? value : py::object(py::str(text));
    }
    return dict;
}

// {"layout.pipeline_parallel": [1, 2, 4]} or {"cluster.nodes": "16..64*2"} as `--vary` takes them.
std::vector<std::string> varies_of(const py::object& given) {
    std::vector<std::string> varies;
    if (given.is_none()) return varies;
    for (const auto& item : given.attr("items")()) {
        const auto pair = item.cast<py::tuple>();
        std::string values;
        if (py::isinstance<py::str>(pair[1]))
            values = pair[1].cast<std::string>();
        else
            for (const auto& value : pair[1])
                values += (values.empty() ? "" : ",") + value_text(value);
        varies.push_back(pair[0].cast<std::string>() + '=' + values);
    }
    return varies;
}

std::string path_of(const py::object& path) {
    return py::module_::import("os").attr("fsencode")(path).cast<std::string>();
}

// Runs `work` with a flag that stops it. An interrupt sets the flag, waits, and is raised.
template <typename Work>
auto interruptible(const Work& work) {
    std::atomic<bool> stop{false};
    auto running = std::async(std::launch::async, [&] { return work(stop); });
    for (bool ready = false; !ready;) {
        {
            const py::gil_scoped_release others_may_run;
            ready = running.wait_for(std::chrono::milliseconds(50)) == std::future_status::ready;
        }
        if (PyErr_CheckSignals() == 0) continue;
        {
            const py::gil_scoped_release others_may_run;
            stop.store(true);
            running.wait();
        }
        throw py::error_already_set();
    }
    return running.get();
}

// A path, a mapping, or a scenario that has been read.
orrery::Scenario scenario_of(const py::object& source, const py::object& overrides) {
    const std::vector<std::string> all = overrides_of(overrides);
    if (py::isinstance<orrery::Scenario>(source)) {
        const auto scenario = source.cast<orrery::Scenario>();
        return all.empty() ? scenario : interruptible([&](auto&) { return scenario.with(all); });
    }
    if (py::hasattr(source, "keys")) {
        const auto text =
            py::module_::import("json").attr("dumps")(py::dict(source)).cast<std::string>();
        return interruptible([&](auto&) { return orrery::Scenario::from_text(text, all); });
    }
    const std::string path = path_of(source);
    return interruptible([&](auto&) { return orrery::Scenario::from_file(path, all); });
}

std::string repr_of(const orrery::Diagnostic& diagnostic) {
    return "<orrery.Diagnostic " + diagnostic.code + ' ' + diagnostic.pointer + ": " +
           diagnostic.message + '>';
}

std::string repr_of(const orrery::Prediction& prediction) {
    return py::str("<orrery.Prediction {:.4g} s, {:.1f} % MFU, {}>")
        .format(prediction.step_time_s(), 100 * prediction.mfu(),
                py::str(std::string(name(prediction.verdict()))))
        .cast<std::string>();
}

std::string repr_of(const orrery::SearchResult& result) {
    return py::str("<orrery.SearchResult {} layouts, the best of {}>")
        .format(result.layouts().size(), result.evaluated())
        .cast<std::string>();
}

// Classes of orrery._errors, which are written in Python: they have two parents.
void raise(const orrery::Error& error) {
    const py::module_ errors = py::module_::import("orrery._errors");
    const int exit_code = static_cast<int>(error.fault());
    py::object raised;
    if (const auto* invalid = dynamic_cast<const orrery::InvalidScenario*>(&error))
        raised = errors.attr("InvalidScenario")(error.what(), exit_code, invalid->diagnostics());
    else
        raised = errors.attr("error_of")(error.what(), exit_code);
    PyErr_SetObject(py::type::of(raised).ptr(), raised.ptr());
}

void declare_scenario(py::module_& module) {
    using orrery::Diagnostic;
    using orrery::Scenario;
    py::class_<Diagnostic>(module, "Diagnostic", "One thing that is wrong with a scenario.")
        .def_readonly("code", &Diagnostic::code)
        .def_readonly("file", &Diagnostic::file)
        .def_readonly("pointer", &Diagnostic::pointer)
        .def_readonly("value", &Diagnostic::value)
        .def_readonly("origin", &Diagnostic::origin)
        .def_readonly("message", &Diagnostic::message)
        .def_readonly("arithmetic", &Diagnostic::arithmetic)
        .def_readonly("note", &Diagnostic::note)
        .def_readonly("help", &Diagnostic::help)
        .def_readonly("line", &Diagnostic::line)
        .def_readonly("column", &Diagnostic::column)
        .def("__repr__", [](const Diagnostic& diagnostic) { return repr_of(diagnostic); });
    py::class_<Scenario>(module, "Scenario", "A scenario, sound or not; it never changes.")
        .def(py::init(&scenario_of), py::arg("source"), py::arg("overrides") = py::none(),
             "Reads a file, by its path, or a mapping as if it were one.")
        .def(
            "with_overrides",
            [](const py::object& self, const py::object& overrides) {
                return scenario_of(self, overrides);
            },
            py::arg("overrides"), "This scenario with more overrides, which win.")
        .def_property_readonly("diagnostics", &Scenario::diagnostics,
                               "What is wrong with it; empty: it can be simulated.")
        .def_property_readonly(
            "overrides",
            [](const Scenario& scenario) { return overrides_dict(scenario.overrides()); },
            "Keys and the values that they were given besides.")
        .def(
            "to_dict", [](const Scenario& scenario) { return loads(scenario.resolved()); },
            "Every key with its value, defaults and presets as well.")
        .def("to_json", &Scenario::text,
             "The scenario as one text that needs no other file of the user's.");
}

void declare_prediction(py::module_& module) {
    using orrery::Prediction;
    using orrery::StageMemory;
    py::class_<StageMemory>(module, "StageMemory", "Memory of one pipeline rank at its peak.")
        .def_readonly("parameters_bytes", &StageMemory::parameters_bytes)
        .def_readonly("gradients_bytes", &StageMemory::gradients_bytes)
        .def_readonly("optimizer_bytes", &StageMemory::optimizer_bytes)
        .def_readonly("activations_bytes", &StageMemory::activations_bytes)
        .def_readonly("workspace_bytes", &StageMemory::workspace_bytes)
        .def_readonly("communication_bytes", &StageMemory::communication_bytes)
        .def_readonly("other_bytes", &StageMemory::other_bytes)
        .def_readonly("peak_bytes", &StageMemory::peak_bytes)
        .def_readonly("capacity_bytes", &StageMemory::capacity_bytes)
        .def_readonly("peak_at", &StageMemory::peak_at);
    const auto json_of = [](const Prediction& prediction) {
        return interruptible([&](const auto& stop) { return prediction.json(&stop); });
    };
    py::class_<Prediction>(module, "Prediction", "What one training step takes.")
        .def_property_readonly("step_time", &Prediction::step_time_s, "Seconds.")
        .def_property_readonly("interval", &Prediction::interval_s,
                               "Seconds, in which nine of ten steps are expected.")
        .def_property_readonly(
            "breakdown",
            [](const Prediction& prediction) {
                py::dict accounts;
                for (const auto& [account, seconds] : prediction.breakdown_s())
                    accounts[py::str(account)] = seconds;
                return accounts;
            },
            "Seconds by what they go to, mean over ranks; they add up to step_time.")
        .def_property_readonly("bubble_fraction", &Prediction::bubble_fraction)
        .def_property_readonly(
            "verdict", [](const Prediction& prediction) { return name(prediction.verdict()); },
            "'fits', 'tight' or 'exceeds'.")
        .def_property_readonly("fit_probability", &Prediction::fit_probability)
        .def_property_readonly("peak_bytes", &Prediction::peak_bytes,
                               "Of the fullest pipeline rank.")
        .def_property_readonly("capacity_bytes", &Prediction::capacity_bytes)
        .def_property_readonly("stages", &Prediction::stages, "Memory by pipeline rank.")
        .def_property_readonly("tokens_per_s", &Prediction::tokens_per_s)
        .def_property_readonly("tokens_per_s_per_gpu", &Prediction::tokens_per_s_per_gpu)
        .def_property_readonly("model_tflops_per_gpu", &Prediction::model_tflops_per_gpu)
        .def_property_readonly("mfu", &Prediction::mfu)
        .def_property_readonly("mfu_causal", &Prediction::mfu_causal)
        .def_property_readonly("hfu", &Prediction::hfu)
        .def_property_readonly("gpus", &Prediction::gpus)
        .def_property_readonly("days", &Prediction::days)
        .def_property_readonly("gpu_hours", &Prediction::gpu_hours)
        .def_property_readonly("cost_usd", &Prediction::cost_usd)
        .def_property_readonly("energy_mwh", &Prediction::energy_mwh)
        .def_property_readonly("scenario", &Prediction::scenario)
        .def_property_readonly("warnings", &Prediction::warnings)
        .def("to_json", json_of, "The text that `orrery simulate --json` prints.")
        .def(
            "to_dict",
            [json_of](const Prediction& prediction) { return loads(json_of(prediction)); },
            "The object that `orrery simulate --json` prints.")
        .def(
            "write_trace",
            [](const Prediction& prediction, const py::object& path, bool overwrite) {
                const std::string file = path_of(path);
                interruptible(
                    [&](const auto& stop) { prediction.write_trace(file, overwrite, &stop); });
            },
            py::arg("path"), py::kw_only(), py::arg("overwrite") = false,
            "Writes the step as .orrery, .pftrace (Perfetto) or .json (Chrome).")
        .def("__repr__", [](const Prediction& prediction) { return repr_of(prediction); });
    module.def(
        "simulate",
        [](const py::object& scenario, const py::object& overrides, bool unfolded,
           std::int64_t draws, const py::object& costs) {
            const orrery::Scenario read = scenario_of(scenario, overrides);
            orrery::SimulateOptions options;
            options.unfolded = unfolded;
            options.draws = draws;
            if (!costs.is_none()) options.costs = path_of(costs);
            return interruptible([&](const auto& stop) {
                options.stop = &stop;
                return orrery::simulate(read, options);
            });
        },
        py::arg("scenario"), py::arg("overrides") = py::none(), py::kw_only(),
        py::arg("unfolded") = false, py::arg("draws") = 0, py::arg("costs") = py::none(),
        "Predicts a training step of a scenario.");
}

void declare_search(py::module_& module) {
    using orrery::FoundLayout;
    using orrery::SearchResult;
    py::class_<FoundLayout>(module, "FoundLayout", "A layout that was simulated in full.")
        .def_property_readonly(
            "overrides", [](const FoundLayout& found) { return overrides_dict(found.overrides); },
            "What makes it of the scenario that was searched.")
        .def_readonly("step_time", &FoundLayout::step_time_s)
        .def_readonly("interval", &FoundLayout::interval_s)
        .def_readonly("peak_bytes", &FoundLayout::peak_bytes)
        .def_readonly("fit_probability", &FoundLayout::fit_probability)
        .def_readonly("mfu", &FoundLayout::mfu)
        .def_readonly("tokens_per_s", &FoundLayout::tokens_per_s);
    py::class_<SearchResult>(module, "SearchResult", "What a search found.")
        .def_property_readonly("layouts", &SearchResult::layouts,
                               "Best first; empty where nothing fits.")
        .def(
            "scenario",
            [](const SearchResult& result, std::size_t place) {
                return interruptible([&](auto&) { return result.scenario(place); });
            },
            py::arg("place") = 0, "The scenario with the layout of this place.")
        .def_property_readonly("evaluated", &SearchResult::evaluated)
        .def_property_readonly("priced", &SearchResult::priced)
        .def_property_readonly("seconds", &SearchResult::seconds)
        .def("to_json", &SearchResult::json, "The text that `orrery search --json` prints.")
        .def(
            "to_dict", [](const SearchResult& result) { return loads(result.json()); },
            "The object that `orrery search --json` prints.")
        .def("__repr__", [](const SearchResult& result) { return repr_of(result); });
    module.def(
        "search",
        [](const py::object& scenario, const py::object& overrides, const py::object& vary,
           const std::string& objective, std::size_t top, double fit_probability,
           double memory_margin_percent) {
            const orrery::Scenario read = scenario_of(scenario, overrides);
            orrery::SearchOptions options;
            options.vary = varies_of(vary);
            options.objective = objective;
            options.top = top;
            options.fit_probability = fit_probability;
            options.memory_margin_percent = memory_margin_percent;
            return interruptible([&](const auto& stop) {
                options.stop = &stop;
                return orrery::search(read, options);
            });
        },
        py::arg("scenario"), py::arg("overrides") = py::none(), py::kw_only(),
        py::arg("vary") = py::none(), py::arg("objective") = "step_time", py::arg("top") = 10,
        py::arg("fit_probability") = 0.5, py::arg("memory_margin_percent") = 0.0,
        "Finds the fastest layouts among all that fit the cluster.");
}

}  // namespace

PYBIND11_MODULE(_orrery, module) {
    py::register_exception_translator([](std::exception_ptr thrown) {
        try {
            if (thrown) std::rethrow_exception(thrown);
        } catch (const orrery::Error& error) {
            raise(error);
        }
    });
    module.def("version", &orrery::version, "Of the program that the library belongs to.");
    module.def("library_folder", &orrery::library_folder,
               "Where the shipped models, clusters, profiles and runs lie.");
    declare_scenario(module);
    declare_prediction(module);
    declare_search(module);
}
