// The scenario as a form: every key of the schema as a row of a tree, with what it is in the file,
// or what it comes to where the file says nothing. A row's value may be edited; the change is asked
// for, and made where the text is.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include <QAbstractItemModel>

#include "gui/scenario/answer.hpp"
#include "plan/scenario/schema.hpp"

namespace orrery::gui {

class FormModel : public QAbstractItemModel {
    Q_OBJECT

  public:
    enum Column { name, value, origin, columns };
    // The type is a plan::KeyType; said: in the file; fault: what is wrong with it, or empty.
    enum Role { path_role = Qt::UserRole, words_role, type_role, said_role, fault_role };

    explicit FormModel(QObject* parent = nullptr);
    ~FormModel() override;

    // `answer` may be of an older text; of one with errors the values that keys come to stay those
    // of the last sound one.
    void show(const std::string& text, const AnswerPtr& answer);

    // Of a key by its path, "layout.zero_stage"; invalid: there is no such row.
    QModelIndex index_of(const std::string& path, Column column = value) const;
    const plan::KeySpec& key_of(const QModelIndex& index) const;
    bool is_in_file(const QModelIndex& index) const;

    QModelIndex index(int row, int column, const QModelIndex& parent = {}) const override;
    QModelIndex parent(const QModelIndex& child) const override;
    int rowCount(const QModelIndex& parent = {}) const override;
    int columnCount(const QModelIndex& parent = {}) const override;
    QVariant data(const QModelIndex& index, int role) const override;
    QVariant headerData(int section, Qt::Orientation orientation, int role) const override;
    Qt::ItemFlags flags(const QModelIndex& index) const override;
    // Asks for the change; what is shown changes when the text has.
    bool setData(const QModelIndex& index, const QVariant& value, int role) override;

  Q_SIGNALS:
    // A value as JSON.
    void wanted(const QString& path, const QString& json);

  private:
    struct Node;

    Node* node_of(const QModelIndex& index) const;
    QModelIndex index_of(const Node* node, int column) const;
    void add(Node& above, const std::vector<plan::KeySpec>& keys);
    void make_tree();
    void refresh(Node& node);
    QString shown(const Node& node) const;
    QString with_unit(const Node& node) const;
    QString origin_of(const Node& node) const;
    QString explanation(const Node& node) const;

    struct State;
    std::unique_ptr<State> state_;
    std::unique_ptr<Node> root_;
};

}  // namespace orrery::gui
