// What the application writes besides scenarios, by the rule of the command line's outputs
// (cli/command_files.hpp): never onto a file that is not of the output's own kind. Nobody is asked
// to force it: another name is as near.
#pragma once

#include <QByteArray>
#include <QString>

#include "cli/command_files.hpp"

namespace orrery::gui {

// Pictures carry a mark of who drew them.
extern const QString kPictureMark;
cli::OutputKind png_file();
cli::OutputKind svg_file();
// A table with these heads, "kind,time of the rows,share".
cli::OutputKind csv_file(const std::string& heads);
// As slurm_script makes it.
cli::OutputKind batch_script_file();

// Whole or not at all. Empty, or why not.
QString write_export(const QString& path, const cli::OutputKind& kind, const QByteArray& content);

}  // namespace orrery::gui
