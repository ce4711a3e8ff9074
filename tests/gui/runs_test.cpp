// Runs as a user has them: started, watched, killed, resumed, left alone by a window that goes and
// found again by the next one; on hosts, and as a job.
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <map>

#include <QComboBox>
#include <QLabel>
#include <QLineEdit>
#include <QPlainTextEdit>
#include <QProcess>
#include <QProcessEnvironment>

#include "cli/quantity.hpp"
#include "gui/scenario/json_places.hpp"
#include "gui/window/attach_dialog.hpp"
#include "gui/window/charts.hpp"
#include "tests/gui/window_world.hpp"

namespace orrery::gui {
namespace ORRERY_TEST_FILE {

// Four CPU ranks of the shipped run, for so many steps, with a checkpoint every two.
std::string write_run(WindowWorld& world, int steps) {
    const std::string path = world.copy_of("tiny-gpt");
    std::string text = content(path);
    for (const auto& [key, value] : std::map<std::string, std::string>{
             {"run.data", '"' + std::string(ORRERY_SOURCE_DIR) + "/scenarios/data/sample.txt\""},
             {"layout.data_parallel", "1"},
             {"run.steps", std::to_string(steps)},
             {"run.checkpoint", R"({"path": ")" + world.file("saved") + R"(", "every_steps": 2})"}})
        text = *with_setting(text, key, value);
    std::ofstream(path) << text;
    return path;
}

void go_to_run(WindowWorld& world) {
    QTest::keyClick(world.window.get(), Qt::Key_7, Qt::ControlModifier);
}

void press(QWidget& pane, const QString& text) {
    QPushButton* button = button_of(pane, text);
    ASSERT_NE(button, nullptr) << text.toStdString();
    ASSERT_TRUE(button->isEnabled()) << text.toStdString();
    QTest::mouseClick(button, Qt::LeftButton);
}

void choose(LaunchPane& launch, const QString& name, const QString& text) {
    for (auto* box : launch.findChildren<QComboBox*>())
        if (box->accessibleName() == name) {
            const int index = box->findText(text);
            ASSERT_GE(index, 0) << text.toStdString();
            box->setFocus();
            while (box->currentIndex() != index) {
                const int before = box->currentIndex();
                QTest::keyClick(box, before < index ? Qt::Key_Down : Qt::Key_Up);
                ASSERT_NE(box->currentIndex(), before) << text.toStdString();
            }
            return;
        }
    FAIL() << name.toStdString();
}

QLineEdit& field(LaunchPane& launch, const QString& name) {
    for (auto* edit : launch.findChildren<QLineEdit*>())
        if (edit->accessibleName() == name) return *edit;
    throw std::logic_error(name.toStdString());
}

TEST(Runs, ARunIsStartedWatchedAndItsMeasuredStepShown) {
    WindowWorld world;
    const QString run = QString::fromStdString(world.copy_of("tiny-gpt"));
    QString text = QString::fromStdString(content(run.toStdString()));
    text.replace(QStringLiteral("data/sample.txt"),
                 QLatin1String(ORRERY_SOURCE_DIR "/scenarios/data/sample.txt"));
    text.replace(QStringLiteral("\"data_parallel\": \"auto\""),
                 QStringLiteral("\"data_parallel\": 1"));
    text.replace(QStringLiteral("\"steps\": 20"), QStringLiteral("\"steps\": 6"));
    world.open(run.toStdString());
    world.window->editor().replace_text(text);
    world.settle();
    LaunchPane& launch = world.window->launch();
    QPushButton* start = button_of(launch, QStringLiteral("Start"));
    EXPECT_FALSE(start->isEnabled());  // what is trained is a file, and it has not this text
    ASSERT_EQ(world.window->document().save(run), QString());
    ASSERT_TRUE(start->isEnabled());
    go_to_run(world);
    QTest::keyClick(world.window.get(), Qt::Key_R, Qt::ControlModifier);
    ASSERT_TRUE(until([&] { return !launch.is_running(); })) << launch.verdict().toStdString();
    EXPECT_EQ(launch.steps_seen(), 6) << launch.verdict().toStdString();
    for (const LiveChart* chart : launch.findChildren<LiveChart*>())
        EXPECT_EQ(chart->points(), 6);
    ASSERT_FALSE(launch.measured_trace().isEmpty());
    press(launch, QStringLiteral("Show the measured step"));
    ASSERT_TRUE(
        until([&] { return !world.window->is_reading() && !world.window->is_comparing(); }));
    EXPECT_EQ(world.window->timeline().timeline()->trace().origin, trace::Origin::measured);
    // The prediction stands beside it, op by op.
    EXPECT_EQ(world.window->held_timeline().timeline()->trace().origin, trace::Origin::predicted);
    EXPECT_TRUE(world.window->comparison().toPlainText().contains(QStringLiteral("measured")));
    QTest::keyClick(world.window.get(), Qt::Key_B, Qt::ControlModifier);
    world.settle();
    EXPECT_EQ(world.window->timeline().timeline()->trace().origin, trace::Origin::predicted);
    EXPECT_EQ(world.window->document().text(), text);
}

TEST(Runs, AKilledRunIsResumedFromItsCheckpoint) {
    constexpr int kSteps = 40;
    WindowWorld world;
    world.open(write_run(world, kSteps));
    LaunchPane& launch = world.window->launch();
    go_to_run(world);
    press(launch, QStringLiteral("Start"));
    // A checkpoint is written while the next steps are done.
    ASSERT_TRUE(until([&] {
        return launch.steps_seen() >= 10 &&
               std::filesystem::exists(world.file("saved/step-00000008"));
    })) << launch.verdict().toStdString();
    kill(static_cast<pid_t>(launch.record().process.id), SIGKILL);
    ASSERT_TRUE(until([&] { return !launch.is_running(); }));
    EXPECT_TRUE(launch.verdict().contains(QStringLiteral("killed")))
        << launch.verdict().toStdString();
    press(launch, QStringLiteral("Resume"));
    ASSERT_TRUE(until([&] { return !launch.is_running(); })) << launch.verdict().toStdString();
    // What was saved is not done again.
    EXPECT_GT(launch.steps_seen(), 0) << launch.verdict().toStdString();
    EXPECT_LE(launch.steps_seen(), kSteps - 8) << launch.verdict().toStdString();
}

// The window goes, the run does not: the next window offers it, and has all of it from its first
// step on.
TEST(Runs, ARunOutlivesItsWindowAndIsAttachedToByTheNext) {
    constexpr int kSteps = 400;
    WindowWorld world;
    const std::string path = write_run(world, kSteps);
    world.open(path);
    go_to_run(world);
    press(world.window->launch(), QStringLiteral("Start"));
    ASSERT_TRUE(until([&] { return world.window->launch().steps_seen() >= 3; }));
    const RunProcess process = world.window->launch().record().process;
    world.window.reset();
    EXPECT_TRUE(process.is_alive());
    world.make_window(QSize(1440, 860));
    world.window->offer_run();
    ASSERT_TRUE(world.window->message().contains(QStringLiteral("tiny-gpt")));
    press(*world.window, QStringLiteral("Attach"));
    LaunchPane& launch = world.window->launch();
    ASSERT_TRUE(until([&] { return launch.steps_seen() >= 4; })) << launch.verdict().toStdString();
    EXPECT_EQ(launch.record().process.id, process.id);
    // Its scenario came along.
    EXPECT_EQ(world.window->document().path().toStdString(), path);
    press(launch, QStringLiteral("Stop"));
    ASSERT_TRUE(until([&] { return !launch.is_running(); }));
    EXPECT_TRUE(launch.verdict().contains(QStringLiteral("stopped")))
        << launch.verdict().toStdString();
    EXPECT_LT(launch.steps_seen(), kSteps);
    EXPECT_FALSE(launch.going_on());
}

// Of the test below: a program that starts a run and is killed.
TEST(Runs, DISABLED_StartsARunAndIsKilled) {
    const QProcessEnvironment given = QProcessEnvironment::systemEnvironment();
    RunRecord record = RunRecord::fresh(given.value(QStringLiteral("ORRERY_TEST_RUNS")));
    record.scenario = given.value(QStringLiteral("ORRERY_TEST_SCENARIO"));
    record.command = training_command({}, {record.scenario, 4, 4, true}, record.trace);
    TrainingRun run;
    int steps = 0;
    QObject::connect(&run, &TrainingRun::stepped, [&] { ++steps; });
    run.start(record);
    ASSERT_TRUE(until([&] { return steps >= 3; }));
    raise(SIGKILL);
}

TEST(Runs, ARunOutlivesAProgramThatIsKilled) {
    WindowWorld world;
    const std::string path = write_run(world, 400);
    QProcess other;
    QProcessEnvironment environment = QProcessEnvironment::systemEnvironment();
    environment.insert(QStringLiteral("ORRERY_TEST_RUNS"), world.window->launch().runs_folder());
    environment.insert(QStringLiteral("ORRERY_TEST_SCENARIO"), QString::fromStdString(path));
    other.setProcessEnvironment(environment);
    other.start(QCoreApplication::applicationFilePath(),
                {QStringLiteral("--gtest_filter=Runs.DISABLED_StartsARunAndIsKilled"),
                 QStringLiteral("--gtest_also_run_disabled_tests")});
    ASSERT_TRUE(other.waitForFinished(kPatienceMs));
    ASSERT_EQ(other.exitStatus(), QProcess::CrashExit) << other.readAll().toStdString();
    LaunchPane& launch = world.window->launch();
    go_to_run(world);
    QTest::keyClick(world.window.get(), Qt::Key_A, Qt::ControlModifier | Qt::ShiftModifier);
    auto* dialog = launch.findChild<AttachDialog*>();
    ASSERT_NE(dialog, nullptr);
    ASSERT_EQ(dialog->list().count(), 1);
    EXPECT_TRUE(dialog->list().item(0)->text().contains(QStringLiteral("goes on")));
    QTest::keyClick(&dialog->list(), Qt::Key_Return);
    ASSERT_TRUE(until([&] { return launch.steps_seen() >= 5; })) << launch.verdict().toStdString();
    // It is no child of this program: how it ends, its own words say.
    kill(static_cast<pid_t>(launch.record().process.id), SIGKILL);
    ASSERT_TRUE(until([&] { return !launch.is_running(); }));
    EXPECT_TRUE(launch.verdict().contains(QStringLiteral("did not say why")))
        << launch.verdict().toStdString();
}

TEST(Runs, ARunThatDiesSaysSoAndTakesNothingWithIt) {
    WindowWorld world;
    world.open(shipped("tiny-gpt"));
    TrainingRun run;
    QString verdict;
    bool well = true;
    QObject::connect(&run, &TrainingRun::ended, [&](const QString& said, bool ended_well) {
        verdict = said;
        well = ended_well;
    });
    const auto perform = [&](const QStringList& command) {
        RunRecord record = RunRecord::fresh(QString::fromStdString(world.file("runs")));
        record.command = command;
        verdict.clear();
        run.start(record);
        return until([&] { return !verdict.isEmpty(); });
    };
    const auto shell = [&](const char* text) {
        return perform({QStringLiteral("sh"), QStringLiteral("-c"), QLatin1String(text)});
    };
    ASSERT_TRUE(shell("echo '{\"event\":\"sta'; echo rank 3 is gone >&2; kill -9 $$"));
    EXPECT_FALSE(well);
    EXPECT_TRUE(verdict.contains(QStringLiteral("killed"))) << verdict.toStdString();
    EXPECT_TRUE(verdict.contains(QStringLiteral("rank 3 is gone"))) << verdict.toStdString();
    ASSERT_TRUE(perform({QStringLiteral("/nowhere/orrery-run")}));
    EXPECT_FALSE(well);
    EXPECT_TRUE(verdict.contains(QStringLiteral("/nowhere/orrery-run"))) << verdict.toStdString();
    ASSERT_TRUE(shell("exit 8"));
    EXPECT_TRUE(verdict.contains(QStringLiteral("could not be written"))) << verdict.toStdString();
}

// What a run says of its health is told when it comes, and a file alone is followed to its end.
TEST(Runs, AFileOfLinesIsFollowedAsItGrows) {
    WindowWorld world;
    world.open(shipped("tiny-gpt"));
    const std::string path = world.file("job.jsonl");
    std::ofstream lines(path);
    lines << R"({"event":"start","steps":9,"arena_bytes_by_rank":[1048576,2097152]})" << '\n'
          << R"({"event":"step","step":1,"loss":4.5,"grad_norm":2,"tokens_per_s":100})" << '\n'
          << R"({"event":"step","step":2,"lo)" << std::flush;
    LaunchPane& launch = world.window->launch();
    launch.attach(RunRecord::of_events(QString::fromStdString(path)));
    ASSERT_TRUE(until([&] { return launch.steps_seen() == 1; }));
    QTest::qWait(250);  // longer than two looks: half a line is no step
    EXPECT_EQ(launch.steps_seen(), 1);
    EXPECT_TRUE(launch.is_running());
    lines << R"(ss":4.25})" << '\n'
          << R"({"event":"health","ailment":"straggler","begins":true,"step":2,)"
          << R"("message":"rank 3 on node07 is slow"})" << '\n'
          << std::flush;
    ASSERT_TRUE(until([&] { return launch.steps_seen() == 2; }));
    lines << R"({"event":"error","message":"rank 3 has died","exit_code":6})" << '\n' << std::flush;
    ASSERT_TRUE(until([&] { return !launch.is_running(); }));
    EXPECT_TRUE(launch.verdict().contains(QStringLiteral("a device or rank failed")))
        << launch.verdict().toStdString();
    EXPECT_TRUE(launch.verdict().contains(QStringLiteral("rank 3 has died")));
    bool told = false;
    for (auto* log : launch.findChildren<QPlainTextEdit*>())
        told = told || log->toPlainText().contains(QStringLiteral("rank 3 on node07 is slow"));
    EXPECT_TRUE(told);
    const QString memory =
        QString::fromStdString(cli::bytes_text(1 << 20) + " to " + cli::bytes_text(2 << 20));
    bool shown = false;
    for (auto* label : launch.findChildren<QLabel*>())
        shown = shown || label->text().contains(memory);
    EXPECT_TRUE(shown);
}

TEST(Runs, RanksAreProcessesOfMpirun) {
    // What Open MPI leaves behind is not ours to find; children alone read it.
    qputenv("ASAN_OPTIONS", "detect_leaks=0");
    if (std::system("command -v mpirun >/dev/null") != 0) GTEST_SKIP() << "mpirun is not here";
    qputenv("OMPI_ALLOW_RUN_AS_ROOT", "1");
    qputenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
    WindowWorld world;
    world.open(write_run(world, 4));
    LaunchPane& launch = world.window->launch();
    go_to_run(world);
    choose(launch, QStringLiteral("Where ranks are"), QStringLiteral("on hosts, by mpirun"));
    QLineEdit& hosts = field(launch, QStringLiteral("Hosts, with the ranks of each"));
    ASSERT_TRUE(hosts.isVisible());
    QTest::keyClicks(&hosts, QStringLiteral("localhost:4"));
    EXPECT_TRUE(field(launch, QStringLiteral("Command that is started"))
                    .text()
                    .startsWith(QStringLiteral(
                        "mpirun -n 4 --host localhost:4 -x MASTER_ADDR=localhost ")));
    press(launch, QStringLiteral("Start"));
    ASSERT_TRUE(until([&] { return !launch.is_running(); })) << launch.verdict().toStdString();
    EXPECT_EQ(launch.steps_seen(), 4) << launch.verdict().toStdString();
    EXPECT_TRUE(launch.verdict().contains(QStringLiteral("done")))
        << launch.verdict().toStdString();
    EXPECT_FALSE(launch.measured_trace().isEmpty());
}

// A stand-in for srun: as many processes as the job has tasks, each with the variables of a step.
constexpr const char* kSrun = R"(#!/bin/bash
tasks=$(sed -n 's/^#SBATCH --ntasks=//p' "$JOB_SCRIPT")
for ((task = 0; task < tasks; ++task)); do
    SLURM_STEP_ID=0 SLURM_PROCID=$task SLURM_LOCALID=$task SLURM_NODEID=0 \
    SLURM_STEP_NUM_TASKS=$tasks SLURM_STEP_TASKS_PER_NODE=$tasks SLURM_NTASKS=$tasks \
    SLURM_STEP_NODELIST=127.0.0.1 "$@" &
    started+=($!)
done
for process in "${started[@]}"; do wait "$process" || exit; done
)";

// The script that is saved trains: its job's lines are followed, and its measured step is shown.
TEST(Runs, AScriptForSlurmTrainsAndItsLinesAreFollowed) {
    WindowWorld world;
    world.open(write_run(world, 4));
    LaunchPane& launch = world.window->launch();
    go_to_run(world);
    choose(launch, QStringLiteral("Where ranks are"), QStringLiteral("as a job of Slurm"));
    QTest::keyClicks(&field(launch, QStringLiteral("Further options of the job")),
                     QStringLiteral("--partition=cpu --time=00:10:00"));
    EXPECT_FALSE(button_of(launch, QStringLiteral("Start"))->isEnabled());
    const std::string script = world.file("job.sbatch");
    std::filesystem::remove(script);
    ASSERT_EQ(launch.save_script(QString::fromStdString(script)), QString());
    const std::string text = content(script);
    for (const char* line :
         {"#SBATCH --ntasks=4\n", "#SBATCH --partition=cpu\n", "#SBATCH --time=00:10:00\n",
          "#SBATCH --signal=USR1@60\n", " --resume "})
        EXPECT_NE(text.find(line), std::string::npos) << line << text;
    // Not onto what is no script; onto one of ours, yes.
    EXPECT_NE(launch.save_script(QString::fromStdString(world.file("tiny-gpt.json"))), QString());
    EXPECT_EQ(launch.save_script(QString::fromStdString(script)), QString());

    const std::string bin = world.file("bin");
    std::filesystem::create_directories(bin);
    std::ofstream(bin + "/srun") << kSrun;
    std::filesystem::permissions(bin + "/srun", std::filesystem::perms::owner_all);
    QProcess job;
    QProcessEnvironment environment = QProcessEnvironment::systemEnvironment();
    environment.insert(QStringLiteral("PATH"), QString::fromStdString(bin) + QLatin1Char(':') +
                                                   environment.value(QStringLiteral("PATH")));
    environment.insert(QStringLiteral("JOB_SCRIPT"), QString::fromStdString(script));
    environment.insert(QStringLiteral("SLURM_JOB_ID"), QStringLiteral("4711"));
    job.setProcessEnvironment(environment);
    job.setWorkingDirectory(QString::fromStdString(world.file("")));
    job.start(QStringLiteral("bash"), {QString::fromStdString(script)});
    const std::string lines = world.file("tiny-gpt-4711.jsonl");
    ASSERT_TRUE(until([&] { return std::filesystem::exists(lines); }));
    launch.attach(RunRecord::of_events(QString::fromStdString(lines)));
    ASSERT_TRUE(until([&] { return !launch.is_running() && job.state() == QProcess::NotRunning; }))
        << launch.verdict().toStdString();
    EXPECT_EQ(job.exitCode(), 0) << job.readAllStandardError().toStdString();
    EXPECT_EQ(launch.steps_seen(), 4) << launch.verdict().toStdString();
    launch.refresh();
    EXPECT_FALSE(launch.measured_trace().isEmpty());
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::gui
