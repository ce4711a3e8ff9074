// The form of a scenario: its keys as a tree, searched by name, each value edited where it stands.
#pragma once

#include <QWidget>

#include "gui/scenario/form_model.hpp"

class QAction;
class QLineEdit;
class QSortFilterProxyModel;
class QTreeView;

namespace orrery::gui {

class FormPane : public QWidget {
    Q_OBJECT

  public:
    explicit FormPane(QWidget* parent = nullptr);

    void show(const QString& text, const AnswerPtr& answer);
    FormModel& model() { return *model_; }
    QTreeView& tree() { return *tree_; }
    QLineEdit& filter() { return *filter_; }
    // In the tree as it is filtered; invalid: the filter hides it.
    QModelIndex shown_index(const std::string& path, FormModel::Column column) const;

  Q_SIGNALS:
    void wanted(const QString& path, const QString& json);  // a value to set
    void unwanted(const QString& path);                     // a key to take out of the file
    void to_show(const QString& path);                      // in the text

  private:
    void filter_by(const QString& text);
    QModelIndex current() const;  // of the model

    FormModel* model_;
    QSortFilterProxyModel* filtered_;
    QLineEdit* filter_;
    QTreeView* tree_;
    QAction* take_out_;
};

}  // namespace orrery::gui
