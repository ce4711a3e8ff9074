// Tables as CSV: what is read in them, quoted as RFC 4180 says, to the clipboard and to a file.
#include <QAction>
#include <QClipboard>

#include "gui/window/table_csv.hpp"
#include "tests/gui/window_world.hpp"

namespace orrery::gui {
namespace ORRERY_TEST_FILE {

TEST(TableCsv, QuotesWhatWouldEndACell) {
    QTableWidget table(2, 3);
    table.setHorizontalHeaderLabels(
        {QStringLiteral("what"), QStringLiteral("a, b"), QStringLiteral("\"c\"")});
    table.setItem(0, 0, new QTableWidgetItem(QStringLiteral("plain")));
    table.setItem(0, 1, new QTableWidgetItem(QStringLiteral("1,5 s")));
    table.setItem(1, 0, new QTableWidgetItem(QStringLiteral("two\nlines")));
    table.setItem(1, 2, new QTableWidgetItem(QStringLiteral("say \"so\"")));
    EXPECT_EQ(csv_of(table),
              "what,\"a, b\",\"\"\"c\"\"\"\n"
              "plain,\"1,5 s\",\n"
              "\"two\nlines\",,\"say \"\"so\"\"\"\n");
}

TEST(TableCsv, IsWrittenWholeOrNotAtAll) {
    const std::string folder = testing::TempDir();
    const std::string path = folder + "/table.csv";
    EXPECT_EQ(write_csv("a,b\n", QString::fromStdString(path)), QString());
    EXPECT_EQ(content(path), "a,b\n");
    EXPECT_NE(write_csv("c\n", QStringLiteral("/nowhere/table.csv")), QString());
    EXPECT_NE(write_csv("c\n", QString::fromStdString(folder + "/table.txt")), QString());
    EXPECT_FALSE(std::filesystem::exists(folder + "/table.txt"));
}

// The area's rows and its sum, by the key and by the context menu's action.
TEST(TableCsv, AnAreaIsCopied) {
    WindowWorld world;
    world.open(shipped("tiny-gpt"));
    TimelineView& view = world.window->timeline();
    view.select_area(Area{view.timeline()->window(), {0, 1}});
    QTableWidget& table = world.window->details().table();
    table.setFocus();
    QApplication::clipboard()->clear();
    QTest::keyClick(&table, Qt::Key_C, Qt::ControlModifier | Qt::ShiftModifier);
    const QString copied = QApplication::clipboard()->text();
    const QStringList lines = copied.split(QLatin1Char('\n'), Qt::SkipEmptyParts);
    const Aggregate aggregate = aggregate_of(*view.timeline(), *view.scene().area);
    ASSERT_EQ(lines.size(), static_cast<qsizetype>(aggregate.kinds.size()) + 2)
        << copied.toStdString();
    EXPECT_EQ(lines.front(), QStringLiteral("kind,time of the rows,share"));
    EXPECT_TRUE(lines[1].startsWith(QString::fromStdString(text_of(aggregate.kinds[0].kind))));
    EXPECT_TRUE(lines.back().startsWith(QStringLiteral("selected,")));
    QApplication::clipboard()->clear();
    EXPECT_EQ(table.contextMenuPolicy(), Qt::ActionsContextMenu);
    table.actions().front()->trigger();
    EXPECT_EQ(QApplication::clipboard()->text(), copied);
}

// Else the key would copy what nobody meant.
TEST(TableCsv, WithoutATableTheKeyCopiesNothing) {
    WindowWorld world;
    world.open(shipped("tiny-gpt"));
    QApplication::clipboard()->setText(QStringLiteral("before"));
    world.key(Qt::Key_C, Qt::ControlModifier | Qt::ShiftModifier);
    EXPECT_EQ(QApplication::clipboard()->text(), QStringLiteral("before"));
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::gui
