#include "gui/window/attach_dialog.hpp"

#include <QDialogButtonBox>
#include <QLabel>
#include <QLocale>
#include <QPushButton>
#include <QVBoxLayout>

namespace orrery::gui {

AttachDialog::AttachDialog(std::vector<RunRecord> runs, QWidget* parent)
    : QDialog(parent), runs_(std::move(runs)), list_(new QListWidget) {
    setWindowTitle(tr("Attach to a run"));
    list_->setAccessibleName(tr("Runs that were started here"));
    for (const RunRecord& run : runs_)
        list_->addItem(tr("%1, %2, since %3")
                           .arg(run.scenario.section(QLatin1Char('/'), -1),
                                run.process.is_alive() ? tr("goes on") : tr("has ended"),
                                QLocale().toString(run.begun, QLocale::ShortFormat)));
    auto* buttons = new QDialogButtonBox(QDialogButtonBox::Cancel);
    attach_ = buttons->addButton(tr("Attach"), QDialogButtonBox::AcceptRole);
    QPushButton* file =
        buttons->addButton(tr("A file of its lines…"), QDialogButtonBox::ActionRole);
    auto* layout = new QVBoxLayout(this);
    layout->addWidget(new QLabel(
        runs_.empty()
            ? tr("No run was started here.")
            : tr("A run of another program, as of a job of Slurm, has a file of lines.")));
    layout->addWidget(list_, 1);
    layout->addWidget(buttons);
    attach_->setEnabled(!runs_.empty());
    if (!runs_.empty()) list_->setCurrentRow(0);
    connect(buttons, &QDialogButtonBox::accepted, this, &AttachDialog::attach);
    connect(buttons, &QDialogButtonBox::rejected, this, &QDialog::reject);
    connect(list_, &QListWidget::itemActivated, this, &AttachDialog::attach);
    connect(file, &QPushButton::clicked, this, [this] {
        accept();
        Q_EMIT wants_file();
    });
    resize(520, 300);
}

void AttachDialog::attach() {
    const int row = list_->currentRow();
    if (row < 0) return;
    accept();
    Q_EMIT chosen(runs_[static_cast<std::size_t>(row)]);
}

}  // namespace orrery::gui
