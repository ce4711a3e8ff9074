#include "gui/window/form_pane.hpp"

#include <QAction>
#include <QComboBox>
#include <QHeaderView>
#include <QLineEdit>
#include <QSortFilterProxyModel>
#include <QStyledItemDelegate>
#include <QTreeView>
#include <QVBoxLayout>

namespace orrery::gui {
namespace {

constexpr QRgb kFault = 0xffd55e00;  // vermilion, as faults are elsewhere

// A list where there are words, a line of text elsewhere; a list that numbers may stand in, too, is
// typed into.
class ValueDelegate : public QStyledItemDelegate {
  public:
    using QStyledItemDelegate::QStyledItemDelegate;

    QWidget* createEditor(QWidget* parent, const QStyleOptionViewItem& /*option*/,
                          const QModelIndex& index) const override {
        const QStringList words = index.data(FormModel::words_role).toStringList();
        if (words.isEmpty()) {
            auto* line = new QLineEdit(parent);
            line->setFrame(false);
            line->setAccessibleName(index.data(FormModel::path_role).toString());
            return line;
        }
        auto* list = new QComboBox(parent);
        list->addItems(words);
        const auto kind = static_cast<plan::KeyType>(index.data(FormModel::type_role).toInt());
        list->setEditable(kind != plan::KeyType::word && kind != plan::KeyType::flag);
        list->setAccessibleName(index.data(FormModel::path_role).toString());
        // A choice is made with the click.
        connect(list, &QComboBox::activated, this, [this, list] {
            Q_EMIT const_cast<ValueDelegate*>(this)->commitData(list);
            Q_EMIT const_cast<ValueDelegate*>(this)->closeEditor(list);
        });
        return list;
    }

    // What the file says stands out from what follows from it.
    void initStyleOption(QStyleOptionViewItem* option, const QModelIndex& index) const override {
        QStyledItemDelegate::initStyleOption(option, index);
        const bool said = index.data(FormModel::said_role).toBool();
        option->font.setBold(said && index.column() != FormModel::origin);
        if (!index.data(FormModel::fault_role).toString().isEmpty())
            option->palette.setColor(QPalette::Text, kFault);
        else if (!said && index.column() != FormModel::name)
            option->palette.setColor(QPalette::Text,
                                     option->palette.color(QPalette::PlaceholderText));
    }

    void setEditorData(QWidget* editor, const QModelIndex& index) const override {
        const QString now = index.data(Qt::EditRole).toString();
        if (auto* list = qobject_cast<QComboBox*>(editor)) {
            const int row = list->findText(now);
            if (row >= 0)
                list->setCurrentIndex(row);
            else
                list->setEditText(now);
            return;
        }
        static_cast<QLineEdit*>(editor)->setText(now);
    }

    void setModelData(QWidget* editor, QAbstractItemModel* model,
                      const QModelIndex& index) const override {
        const auto* list = qobject_cast<QComboBox*>(editor);
        model->setData(
            index, list != nullptr ? list->currentText() : static_cast<QLineEdit*>(editor)->text());
    }
};

}  // namespace

FormPane::FormPane(QWidget* parent)
    : QWidget(parent),
      model_(new FormModel(this)),
      filtered_(new QSortFilterProxyModel(this)),
      filter_(new QLineEdit(this)),
      tree_(new QTreeView(this)),
      take_out_(new QAction(tr("Take out of the file"), this)) {
    auto* layout = new QVBoxLayout(this);
    layout->setContentsMargins(0, 2, 0, 0);
    layout->setSpacing(2);
    filter_->setPlaceholderText(tr("Find a key"));
    filter_->setClearButtonEnabled(true);
    filter_->setAccessibleName(tr("Find a key of the scenario"));
    layout->addWidget(filter_);
    filtered_->setSourceModel(model_);
    filtered_->setRecursiveFilteringEnabled(true);
    filtered_->setAutoAcceptChildRows(true);
    filtered_->setFilterRole(FormModel::path_role);
    filtered_->setFilterCaseSensitivity(Qt::CaseInsensitive);
    tree_->setModel(filtered_);
    tree_->setItemDelegate(new ValueDelegate(tree_));
    tree_->setUniformRowHeights(true);
    tree_->setAlternatingRowColors(true);
    tree_->setAccessibleName(tr("Keys of the scenario"));
    tree_->setEditTriggers(QAbstractItemView::DoubleClicked | QAbstractItemView::EditKeyPressed |
                           QAbstractItemView::AnyKeyPressed | QAbstractItemView::SelectedClicked);
    tree_->header()->setStretchLastSection(true);
    tree_->header()->resizeSection(FormModel::name, 165);
    tree_->header()->resizeSection(FormModel::value, 90);
    tree_->setContextMenuPolicy(Qt::ActionsContextMenu);
    layout->addWidget(tree_, 1);

    take_out_->setShortcut(QKeySequence::Delete);
    take_out_->setShortcutContext(Qt::WidgetShortcut);
    auto* show_in_text = new QAction(tr("Show in the text"), this);
    tree_->addActions({take_out_, show_in_text});
    connect(take_out_, &QAction::triggered, this, [this] {
        if (const QModelIndex now = current(); model_->is_in_file(now))
            Q_EMIT unwanted(now.data(FormModel::path_role).toString());
    });
    connect(show_in_text, &QAction::triggered, this,
            [this] { Q_EMIT to_show(current().data(FormModel::path_role).toString()); });
    connect(filter_, &QLineEdit::textChanged, this, &FormPane::filter_by);
    connect(model_, &FormModel::wanted, this, &FormPane::wanted);
    connect(model_, &QAbstractItemModel::modelReset, this, [this] { filter_by(filter_->text()); });
    filter_by({});
}

void FormPane::show(const QString& text, const AnswerPtr& answer) {
    model_->show(text.toStdString(), answer);
}

QModelIndex FormPane::shown_index(const std::string& path, FormModel::Column column) const {
    return filtered_->mapFromSource(model_->index_of(path, column));
}

QModelIndex FormPane::current() const {
    return filtered_->mapToSource(tree_->currentIndex());
}

// What is looked for is in sight; else the top's parts are open whose keys are tried most.
void FormPane::filter_by(const QString& text) {
    filtered_->setFilterFixedString(text);
    if (!text.isEmpty()) return tree_->expandAll();
    tree_->collapseAll();
    tree_->expand(shown_index("layout", FormModel::name));
}

}  // namespace orrery::gui
