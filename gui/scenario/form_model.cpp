#include "gui/scenario/form_model.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>

#include <QStringList>

namespace orrery::gui {
namespace {

using Json = nlohmann::ordered_json;

QString text_of(std::string_view text) {
    return QString::fromUtf8(text.data(), static_cast<qsizetype>(text.size()));
}

std::string pointer_of(const std::string& path) {
    std::string pointer = '/' + path;
    std::replace(pointer.begin(), pointer.end(), '.', '/');
    return pointer;
}

// Null: nothing stands there.
const Json* at(const Json& root, const std::string& pointer) {
    const Json::json_pointer place(pointer);
    return root.is_structured() && root.contains(place) ? &root.at(place) : nullptr;
}

QString value_text(const Json& value) {
    return QString::fromStdString(value.is_string() ? value.get<std::string>() : value.dump());
}

// Rows of an object that is no list and no preset's.
bool has_rows(const std::string& path, const plan::KeySpec& key) {
    return !key.keys.empty() && key.type != plan::KeyType::list && path != "training.framework" &&
           path != "layout.schedule";
}

}  // namespace

struct FormModel::Node {
    std::string path;  // empty: the root
    plan::KeySpec key;
    Node* above = nullptr;
    int row = 0;
    std::vector<std::unique_ptr<Node>> below;
    // What is shown.
    const Json* in_file = nullptr;
    const Json* comes_to = nullptr;
    QString fault;  // of this very key
};

struct FormModel::State {
    Json file;      // discarded: the text is not JSON
    Json resolved;  // of the last sound text
    std::vector<std::string> given;
    std::vector<plan::Diagnostic> errors;
    std::string family;
};

FormModel::FormModel(QObject* parent)
    : QAbstractItemModel(parent), state_(std::make_unique<State>()) {
    make_tree();
}
FormModel::~FormModel() = default;

void FormModel::add(Node& above, const std::vector<plan::KeySpec>& keys) {
    for (const plan::KeySpec& key : keys) {
        auto node = std::make_unique<Node>();
        node->path = (above.path.empty() ? "" : above.path + '.') + std::string(key.name);
        node->key = key;
        node->above = &above;
        node->row = static_cast<int>(above.below.size());
        if (has_rows(node->path, key)) add(*node, key.keys);
        above.below.push_back(std::move(node));
    }
}

void FormModel::make_tree() {
    root_ = std::make_unique<Node>();
    add(*root_, plan::scenario_schema());
    if (state_->family.empty()) return;
    for (const auto& part : root_->below) {
        if (part->path != "model") continue;
        std::vector<plan::KeySpec> more = plan::family_keys(state_->family);
        std::erase_if(more, [&](const plan::KeySpec& key) {
            return std::any_of(part->below.begin(), part->below.end(),
                               [&](const auto& there) { return there->key.name == key.name; });
        });
        add(*part, more);
    }
}

void FormModel::show(const std::string& text, const AnswerPtr& answer) {
    state_->file = Json::parse(text, nullptr, false, true);
    state_->errors = answer ? answer->errors : std::vector<plan::Diagnostic>{};
    if (answer && answer->read.scenario) {
        state_->resolved = Json::parse(answer->read.resolved_json, nullptr, false);
        state_->given = answer->read.given;
    }
    const std::string family =
        state_->resolved.is_object()
            ? state_->resolved.value("/model/model_type"_json_pointer, std::string())
            : "";
    if (family != state_->family) {
        beginResetModel();
        state_->family = family;
        make_tree();
        endResetModel();
    }
    refresh(*root_);
}

void FormModel::refresh(Node& node) {
    if (!node.path.empty()) {
        const std::string pointer = pointer_of(node.path);
        node.in_file = at(state_->file, pointer);
        node.comes_to = at(state_->resolved, pointer);
        // A constant of the stack is its preset's.
        if (node.comes_to == nullptr && node.path.starts_with("training."))
            node.comes_to = at(state_->resolved, "/training/framework/flags/" +
                                                     std::string(node.key.name) + "/value");
        node.fault.clear();
        for (const plan::Diagnostic& error : state_->errors)
            if (error.pointer == pointer) node.fault = QString::fromStdString(error.message);
    }
    for (const auto& each : node.below)
        refresh(*each);
    if (!node.below.empty())
        Q_EMIT dataChanged(index_of(node.below.front().get(), name),
                           index_of(node.below.back().get(), columns - 1));
}

FormModel::Node* FormModel::node_of(const QModelIndex& index) const {
    return index.isValid() ? static_cast<Node*>(index.internalPointer()) : root_.get();
}

QModelIndex FormModel::index_of(const Node* node, int column) const {
    return node == root_.get() ? QModelIndex() : createIndex(node->row, column, node);
}

QModelIndex FormModel::index_of(const std::string& path, Column column) const {
    const Node* node = root_.get();
    for (std::size_t begin = 0; begin <= path.size();) {
        const std::size_t end = std::min(path.find('.', begin), path.size());
        const auto it = std::find_if(node->below.begin(), node->below.end(), [&](const auto& each) {
            return each->key.name == path.substr(begin, end - begin);
        });
        if (it == node->below.end()) return {};
        node = it->get();
        begin = end + 1;
    }
    return index_of(node, column);
}

const plan::KeySpec& FormModel::key_of(const QModelIndex& index) const {
    return node_of(index)->key;
}

bool FormModel::is_in_file(const QModelIndex& index) const {
    return node_of(index)->in_file != nullptr;
}

QModelIndex FormModel::index(int row, int column, const QModelIndex& parent) const {
    if (!hasIndex(row, column, parent)) return {};
    return createIndex(row, column, node_of(parent)->below[static_cast<std::size_t>(row)].get());
}

QModelIndex FormModel::parent(const QModelIndex& child) const {
    if (!child.isValid()) return {};
    return index_of(node_of(child)->above, name);
}

int FormModel::rowCount(const QModelIndex& parent) const {
    if (parent.column() > 0) return 0;
    return static_cast<int>(node_of(parent)->below.size());
}

int FormModel::columnCount(const QModelIndex& /*parent*/) const {
    return columns;
}

QString FormModel::shown(const Node& node) const {
    if (node.in_file != nullptr && !(node.in_file->is_object() && !node.below.empty()))
        return value_text(*node.in_file);
    if (!node.below.empty()) return {};
    if (node.comes_to != nullptr) return value_text(*node.comes_to);
    const Json initial = Json::parse(node.key.initial, nullptr, false);
    return initial.is_discarded() ? QString() : value_text(initial);
}

// "5 µs"; words have none, and what is counted is said with its key.
QString FormModel::with_unit(const Node& node) const {
    const QString text = shown(node);
    bool is_number = false;
    text.toDouble(&is_number);
    if (!is_number || node.key.type != plan::KeyType::number || node.key.unit.empty()) return text;
    return text + QLatin1Char(' ') + text_of(node.key.unit);
}

QString FormModel::origin_of(const Node& node) const {
    if (node.in_file != nullptr) return tr("this file");
    if (!node.below.empty()) return {};
    // Of a part that is named, the file that has it.
    for (const Node* part = node.above; part != nullptr && !part->path.empty(); part = part->above)
        if (part->in_file != nullptr && part->in_file->is_string()) {
            const std::string pointer = pointer_of(node.path);
            const auto& given = state_->given;
            if (std::find(given.begin(), given.end(), pointer) != given.end())
                return value_text(*part->in_file);
        }
    if (const Json* flag =
            at(state_->resolved, "/training/framework/flags/" + std::string(node.key.name));
        flag != nullptr && node.path.starts_with("training."))
        return tr("stack %1")
            .arg(value_text(state_->resolved.at("/training/framework/name"_json_pointer)));
    return node.comes_to != nullptr || !node.key.initial.empty() ? tr("default") : QString();
}

QString FormModel::explanation(const Node& node) const {
    QStringList lines;
    if (!node.fault.isEmpty()) lines << tr("Error: %1").arg(node.fault);
    if (!node.key.help.empty()) lines << text_of(node.key.help);
    lines << QString::fromStdString(plan::values_text(node.key));
    if (node.key.required)
        lines << tr("Must be there");
    else if (!node.key.initial.empty())
        lines << tr("Default: %1").arg(QString::fromStdString(node.key.initial));
    if (!node.key.where.empty()) lines << tr("Only %1").arg(text_of(node.key.where));
    if (const Json* flag =
            at(state_->resolved, "/training/framework/flags/" + std::string(node.key.name));
        flag != nullptr && node.path.starts_with("training."))
        lines << value_text(flag->at("source"));
    return lines.join(QLatin1Char('\n'));
}

QVariant FormModel::data(const QModelIndex& index, int role) const {
    if (!index.isValid()) return {};
    const Node& node = *node_of(index);
    switch (role) {
        case Qt::DisplayRole:
            if (index.column() == name) return text_of(node.key.name);
            return index.column() == value ? with_unit(node) : origin_of(node);
        case Qt::EditRole:
            return index.column() == value ? shown(node) : QVariant();
        case Qt::ToolTipRole:
        case Qt::StatusTipRole:
            return explanation(node);
        case Qt::AccessibleTextRole:
            return QString::fromStdString(node.path) + QLatin1Char(' ') + shown(node);
        case said_role:
            return node.in_file != nullptr;
        case path_role:
            return QString::fromStdString(node.path);
        case words_role: {
            QStringList list;
            if (node.key.type == plan::KeyType::flag)
                list << QStringLiteral("true") << QStringLiteral("false");
            if (node.key.type != plan::KeyType::list)
                for (const std::string_view each : node.key.words)
                    list << text_of(each);
            return list;
        }
        case type_role:
            return static_cast<int>(node.key.type);
        case fault_role:
            return node.fault;
        default:
            return {};
    }
}

QVariant FormModel::headerData(int section, Qt::Orientation orientation, int role) const {
    if (orientation != Qt::Horizontal || role != Qt::DisplayRole) return {};
    return section == name ? tr("Key") : section == value ? tr("Value") : tr("From");
}

Qt::ItemFlags FormModel::flags(const QModelIndex& index) const {
    const Qt::ItemFlags usual = QAbstractItemModel::flags(index);
    if (!index.isValid() || index.column() != value) return usual;
    const Node& node = *node_of(index);
    // A part that is an object here has its rows; one that is named may be named anew.
    const bool part = !node.below.empty() && node.key.type != plan::KeyType::text;
    return part ? usual : usual | Qt::ItemIsEditable;
}

bool FormModel::setData(const QModelIndex& index, const QVariant& changed, int role) {
    if (role != Qt::EditRole || index.column() != value) return false;
    const Node& node = *node_of(index);
    const QString typed = changed.toString().trimmed();
    if (typed == shown(node)) return false;
    const std::string text = typed.toStdString();
    const bool is_text =
        node.key.type == plan::KeyType::text || node.key.type == plan::KeyType::word;
    // What is no JSON is a word: "auto"; whether it may stand there the reader says.
    const Json parsed = Json::parse(text, nullptr, false);
    const bool is_word = parsed.is_discarded() || (is_text && !parsed.is_structured());
    const std::string json = is_word ? Json(text).dump() : text;
    Q_EMIT wanted(QString::fromStdString(node.path), QString::fromStdString(json));
    return true;
}

}  // namespace orrery::gui
