#include "gui/scenario/marks.hpp"

#include <algorithm>

#include <nlohmann/json.hpp>

#include <QDir>
#include <QFile>
#include <QFileInfo>

#include "trace/atomic_file.hpp"

namespace orrery::gui {
namespace {

using nlohmann::json;

// [{"path": …, "at_ps": […]}, …], the newest last. What is no such list is none.
std::vector<std::pair<std::string, std::vector<trace::Picoseconds>>> read_marks(
    const QString& file) {
    std::vector<std::pair<std::string, std::vector<trace::Picoseconds>>> all;
    QFile in(file);
    if (!in.open(QIODevice::ReadOnly)) return all;
    const QByteArray bytes = in.readAll();
    const json content = json::parse(bytes.begin(), bytes.end(), nullptr, false);
    if (!content.is_array()) return all;
    try {
        for (const json& one : content)
            all.emplace_back(one.at("path").get<std::string>(),
                             one.at("at_ps").get<std::vector<trace::Picoseconds>>());
    } catch (const json::exception&) {
        all.clear();
    }
    return all;
}

std::string absolute_name(const QString& path) {
    return QFileInfo(path).absoluteFilePath().toStdString();
}

}  // namespace

std::vector<trace::Picoseconds> Marks::of(const QString& path) const {
    if (path.isEmpty()) return {};
    for (auto& [name, marks] : read_marks(file_))
        if (name == absolute_name(path)) return marks;
    return {};
}

void Marks::keep(const QString& path, const std::vector<trace::Picoseconds>& marks) const {
    if (path.isEmpty()) return;
    auto all = read_marks(file_);
    std::erase_if(all, [&](const auto& one) { return one.first == absolute_name(path); });
    if (!marks.empty()) all.emplace_back(absolute_name(path), marks);
    const std::size_t first = all.size() - std::min(all.size(), kMostFiles);
    json content = json::array();
    for (std::size_t i = first; i < all.size(); ++i)
        content.push_back({{"path", all[i].first}, {"at_ps", all[i].second}});
    QDir().mkpath(QFileInfo(file_).path());
    trace::write_file(file_.toStdString(), content.dump() + '\n');
}

}  // namespace orrery::gui
