// The form has every key of the schema, shows what each comes to and where it is from, and changes
// the text alone.
#include <QAbstractItemModelTester>
#include <QComboBox>
#include <QLineEdit>
#include <QSignalSpy>
#include <QTabWidget>
#include <QTreeView>

#include "gui/scenario/json_places.hpp"
#include "plan/scenario/schema.hpp"
#include "tests/gui/window_world.hpp"

namespace orrery::gui {
namespace ORRERY_TEST_FILE {

AnswerPtr answered(const std::string& run) {
    const std::atomic<bool> stop = false;
    return answer_of({content(shipped(run)), shipped(run)}, stop);
}

std::string shown(const FormModel& model, const std::string& path, FormModel::Column column) {
    return model.data(model.index_of(path, column), Qt::DisplayRole).toString().toStdString();
}

TEST(FormModel, HasARowForEveryKeyOfTheSchema) {
    FormModel model;
    const QAbstractItemModelTester tester(&model,
                                          QAbstractItemModelTester::FailureReportingMode::Fatal);
    model.show(content(shipped("llama3-70b-h100x256")), answered("llama3-70b-h100x256"));
    int rows = 0;
    plan::for_each_key(
        plan::scenario_schema(), "", [&](const std::string& path, const plan::KeySpec& key) {
            // Entries of lists, and objects that a name usually stands for, are edited as text.
            if (path.find('[') != std::string::npos || path.starts_with("training.framework.") ||
                path.starts_with("layout.schedule."))
                return;
            const QModelIndex index = model.index_of(path);
            ASSERT_TRUE(index.isValid()) << path;
            EXPECT_EQ(model.key_of(index).name, key.name);
            ++rows;
        });
    EXPECT_GT(rows, 150);
    // Those of the model's family besides.
    EXPECT_EQ(shown(model, "model.num_hidden_layers", FormModel::value), "80");
}

TEST(FormModel, SaysWhatAKeyComesToAndWhereItIsFrom) {
    FormModel model;
    model.show(content(shipped("llama3-70b-h100x256")), answered("llama3-70b-h100x256"));
    const auto both = [&](const std::string& path) {
        return shown(model, path, FormModel::value) + " | " + shown(model, path, FormModel::origin);
    };
    EXPECT_EQ(both("cluster"), "clusters/h100-sxm-256.json | this file");
    EXPECT_EQ(both("cluster.nodes"), "32 | clusters/h100-sxm-256.json");
    EXPECT_EQ(both("training.seed"), "1234 | default");
    // 5 µs, as its preset says.
    EXPECT_EQ(both("training.launch_us"), "5 µs | stack orrery");
    EXPECT_TRUE(model.is_in_file(model.index_of("layout.global_batch_size")));
    EXPECT_FALSE(model.is_in_file(model.index_of("training.seed")));
}

TEST(FormModel, AsksForAValueAsJson) {
    FormModel model;
    model.show(content(shipped("tiny-gpt")), answered("tiny-gpt"));
    QSignalSpy wanted(&model, &FormModel::wanted);
    const auto asks = [&](const std::string& path, const char* typed) {
        wanted.clear();
        model.setData(model.index_of(path), QString::fromUtf8(typed), Qt::EditRole);
        return wanted.isEmpty() ? "" : wanted[0][1].toString().toStdString();
    };
    EXPECT_EQ(asks("layout.micro_batch_size", "64"), "64");
    EXPECT_EQ(asks("layout.layers_per_stage", "even"), "\"even\"");
    EXPECT_EQ(asks("cluster", "clusters/h100-sxm-8.json"), "\"clusters/h100-sxm-8.json\"");
    EXPECT_EQ(asks("description", "12"), "\"12\"");
    EXPECT_EQ(asks("layout.layers_per_stage", "[1, 1]"), "[1, 1]");
    EXPECT_EQ(asks("layout.sequence_parallel", "true"), "true");
}

TEST(FormModel, AFaultStandsAtItsKey) {
    std::string text = *with_setting(content(shipped("tiny-gpt")), "layout.zero_stage", "7");
    FormModel model;
    const std::atomic<bool> stop = false;
    model.show(text, answer_of({text, shipped("tiny-gpt")}, stop));
    const QModelIndex index = model.index_of("layout.zero_stage");
    EXPECT_EQ(model.data(index, FormModel::fault_role).toString().toStdString(),
              "zero_stage must be at most 3");
    EXPECT_EQ(model.data(index, Qt::DisplayRole).toString().toStdString(), "7");
}

TEST(JsonPlaces, AKeyIsTakenOutWithItsComma) {
    const auto without = [](const char* text, const char* key) {
        return without_setting(text, key).value_or("none");
    };
    EXPECT_EQ(without(R"({"a": 1, "b": 2})", "a"), R"({"b": 2})");
    EXPECT_EQ(without(R"({"a": 1, "b": 2})", "b"), R"({"a": 1})");
    EXPECT_EQ(without(R"({"a": {"b": 2}})", "a.b"), R"({"a": {}})");
    EXPECT_EQ(without("{\n  \"a\": 1,\n  \"b\": 2\n}", "a"), "{\n  \"b\": 2\n}");
    EXPECT_EQ(without("{\n  \"a\": 1,\n  \"b\": 2\n}", "b"), "{\n  \"a\": 1\n}");
    EXPECT_EQ(without(R"({"a": 1})", "c"), R"({"a": 1})");
    EXPECT_EQ(without("{", "a"), "none");
    EXPECT_EQ(with_setting("{ // why\n \"a\": 1 }", "a", "2").value_or(""),
              "{ // why\n \"a\": 2 }");
}

TEST(Form, AValueTypedThereIsInTheTextAndUndoTakesItBack) {
    WindowWorld world;
    world.open(shipped("tiny-gpt"));
    MainWindow& window = *world.window;
    window.ways_to_edit().setCurrentWidget(&window.form());
    FormPane& form = window.form();
    QTest::keyClicks(&form.filter(), QStringLiteral("learning_rate"));
    const QModelIndex index =
        form.shown_index("training.optimizer.learning_rate", FormModel::value);
    ASSERT_TRUE(index.isValid());
    EXPECT_FALSE(form.shown_index("layout.zero_stage", FormModel::value).isValid());
    form.tree().setCurrentIndex(index);
    form.tree().setFocus();
    QTest::keyClick(&form.tree(), Qt::Key_F2);
    QLineEdit* line = nullptr;
    for (auto* each : form.tree().findChildren<QLineEdit*>())
        if (each->isVisible()) line = each;
    ASSERT_NE(line, nullptr);
    line->selectAll();
    QTest::keyClicks(line, QStringLiteral("0.02"));
    QTest::keyClick(line, Qt::Key_Return);
    world.settle();
    const auto place = [&] { return window.document().text(); };
    EXPECT_TRUE(place().contains(QStringLiteral("0.02"))) << place().toStdString();
    EXPECT_EQ(form.model().data(form.model().index_of("training.optimizer.learning_rate"),
                                Qt::DisplayRole),
              QStringLiteral("0.02"));
    window.editor().undo();
    world.settle();
    EXPECT_EQ(place().toStdString(), content(shipped("tiny-gpt")));
    EXPECT_TRUE(window.document().is_saved());
}

TEST(Form, DeleteTakesAKeyOutAndItsDefaultShows) {
    WindowWorld world;
    world.open(shipped("llama3-70b-h100x256"));
    MainWindow& window = *world.window;
    window.ways_to_edit().setCurrentWidget(&window.form());
    FormPane& form = window.form();
    const QModelIndex index = form.shown_index("layout.zero_stage", FormModel::value);
    ASSERT_TRUE(form.model().is_in_file(form.model().index_of("layout.zero_stage")));
    form.tree().setCurrentIndex(index);
    form.tree().setFocus();
    QTest::keyClick(&form.tree(), Qt::Key_Delete);
    world.settle();
    EXPECT_FALSE(form.model().is_in_file(form.model().index_of("layout.zero_stage")));
    EXPECT_EQ(shown(form.model(), "layout.zero_stage", FormModel::value), "0");
    EXPECT_EQ(shown(form.model(), "layout.zero_stage", FormModel::origin), "default");
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::gui
