// The scenario that is edited: where it lies, what of it is saved. Everything that may lose text
// goes through here.
#pragma once

#include <optional>

#include <QObject>
#include <QPlainTextEdit>
#include <QTimer>

#include "gui/scenario/recovery.hpp"

namespace orrery::gui {

class Document : public QObject {
    Q_OBJECT

  public:
    // `editor` holds the text, and must outlive this.
    Document(QPlainTextEdit* editor, const QString& recovery_folder, QObject* parent = nullptr);

    QString path() const { return path_; }
    QString text() const { return editor_->toPlainText(); }
    bool is_saved() const { return text() == saved_; }

    // Empty: it is there; else why it cannot be read.
    QString open(const QString& path);
    // What another editor has left, unsaved as it was.
    void recover(const Unsaved& unsaved);
    // All or nothing, on the disk when this returns; empty, or why it could not be.
    QString save(const QString& path);
    // What speaks against writing there, besides that something is there: another program has
    // changed the file, or it is no scenario. Empty: nothing.
    QString objection(const QString& path) const;
    void forget_unsaved() { recovery_.forget(); }

  Q_SIGNALS:
    void edited();         // the text has changed
    void state_changed();  // saved, or no more; another path
    void keeping_failed(const QString& why);

  private:
    void keep();

    QPlainTextEdit* editor_;
    Recovery recovery_;
    QTimer keep_soon_;
    QString path_;
    QString saved_;  // what the file held when it was read or written last
};

}  // namespace orrery::gui
