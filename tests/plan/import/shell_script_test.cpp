// What a shell would run, as far as the text settles it.
#include "plan/scenario/import/shell_script.hpp"

#include <gtest/gtest.h>

namespace orrery::plan::imports {
namespace ORRERY_TEST_FILE {

using Texts = std::vector<std::string>;

Texts texts(const std::vector<ShellWord>& words) {
    Texts out;
    for (const ShellWord& word : words)
        out.push_back(word.open ? "open:" + word.text : word.text);
    return out;
}

// Words of the last command.
Texts last(const std::string& text) {
    const ShellScript script = read_shell(text);
    return script.commands.empty() ? Texts{} : texts(script.commands.back());
}

TEST(ShellScript, SplitsWordsAsAShellDoes) {
    EXPECT_EQ(last("a  b\tc"), (Texts{"a", "b", "c"}));
    EXPECT_EQ(last("a \\\n  b # c\n"), (Texts{"a", "b"}));
    EXPECT_EQ(last("a#b '#' \"#\""), (Texts{"a#b", "#", "#"}));
    EXPECT_EQ(last("'a b'c\"d e\" f\\ g ''"), (Texts{"a bcd e", "f g", ""}));
    EXPECT_EQ(last("\"a\\\"b\\$c\\d\" '\\n'"), (Texts{"a\"b$c\\d", "\\n"}));
    EXPECT_EQ(last("a \\\r\n b\r\n"), (Texts{"a", "b"}));
}

TEST(ShellScript, KeepsCommandsApart) {
    const ShellScript script = read_shell("cd x && ls -l; echo 1 > log 2>&1 | tee out &\nlast");
    ASSERT_EQ(script.commands.size(), 5u);
    EXPECT_EQ(texts(script.commands[0]), (Texts{"cd", "x"}));
    EXPECT_EQ(texts(script.commands[2]), (Texts{"echo", "1"}));
    EXPECT_EQ(texts(script.commands[3]), (Texts{"tee", "out"}));
    EXPECT_EQ(last("run -a &> log"), (Texts{"run", "-a"}));
}

TEST(ShellScript, ExpandsVariablesAndArrays) {
    EXPECT_EQ(last("A=1\nB=\"x $A\"\nrun $A ${A}2 $B \"$B\""),
              (Texts{"run", "1", "12", "x", "1", "x 1"}));
    EXPECT_EQ(
        last("A=(\n --a 1 # note\n --b 'c d'\n)\nrun ${A[@]} \"${A[@]}\" \"x${A[*]}\""),
        (Texts{"run", "--a", "1", "--b", "c", "d", "--a", "1", "--b", "c d", "x--a 1 --b c d"}));
    EXPECT_EQ(last("A=(1)\nA+=(2 3)\nS=a\nS+=b\nrun ${A[@]} $S"),
              (Texts{"run", "1", "2", "3", "ab"}));
    EXPECT_EQ(last("A=()\nrun \"${A[@]}\" end"), (Texts{"run", "end"}));
    EXPECT_EQ(last("E=''\nrun $E \"$E\" end"), (Texts{"run", "", "end"}));
    EXPECT_EQ(last("N=4\nrun ${N:-8} ${M:-8} ${M:-$N} ${M-\"a b\"} ${M:-c d} \"${M:-e f}\""),
              (Texts{"run", "4", "8", "4", "a b", "c", "d", "e f"}));
}

TEST(ShellScript, ComputesArithmetic) {
    EXPECT_EQ(last("A=8\nB=4\nW=$(($A*$B))\nrun $W $((W / 2 + 1)) $(( -(A - 20) % 5 ))"),
              (Texts{"run", "32", "17", "2"}));
    EXPECT_EQ(last("run $((1/0)) $((X+1)) $((9223372036854775807+1))"),
              (Texts{"run", "open:$((1/0))", "open:$((X+1))", "open:$((9223372036854775807+1))"}));
}

TEST(ShellScript, LeavesOpenWhatOnlyARunCanTell) {
    EXPECT_EQ(last("run $1 $UNSET a$UNSET/b \"$@\" $(hostname -s) `date`"),
              (Texts{"run", "open:$1", "open:$UNSET", "open:a$UNSET/b", "open:$@",
                     "open:$(hostname -s)", "open:`date`"}));
    EXPECT_EQ(last("P=$1\nrun $P/x ${P##*/} '$1'"),
              (Texts{"run", "open:$1/x", "open:${P##*/}", "$1"}));
}

// A blank in a command is none of what the command prints.
TEST(ShellScript, SplitsNoCommandThatAVariableHolds) {
    EXPECT_EQ(last("N=$(nvidia-smi --list-gpus | wc -l)\nrun --n $N ${N}x"),
              (Texts{"run", "--n", "open:$(nvidia-smi --list-gpus | wc -l)",
                     "open:$(nvidia-smi --list-gpus | wc -l)x"}));
    EXPECT_EQ(
        last("A=\"a `id -u` ${P% *}:1 $(f $(g h)) b\"\nrun $A"),
        (Texts{"run", "open:a", "open:`id -u`", "open:${P% *}:1", "open:$(f $(g h))", "open:b"}));
}

TEST(ShellScript, NamesWhatAConditionLeavesOpen) {
    EXPECT_EQ(last("T=1\nif [ -z \"$X\" ]; then\n T=2\nfi\nrun $T"), (Texts{"run", "open:$T:2|1"}));
    EXPECT_EQ(last("[ -n \"$X\" ] && T=2\nrun $T"), (Texts{"run", "open:$T:2"}));
    EXPECT_EQ(last("if true; then echo; fi\nT=3\nrun $T"), (Texts{"run", "3"}));
    const ShellScript script =
        read_shell("A=(--a)\nif [ $FP8 = 1 ]; then\n A+=(--fp8-format hybrid)\nfi\nrun ${A[@]}");
    EXPECT_EQ(texts(script.commands.back()), (Texts{"run", "--a"}));
    ASSERT_EQ(script.undecided.size(), 1u);
    EXPECT_EQ(script.undecided[0].variable, "A");
    EXPECT_EQ(texts(script.undecided[0].words), (Texts{"--fp8-format", "hybrid"}));
    EXPECT_EQ(script.undecided[0].line, 3);
}

// Texts of the last command, whose words are those of a variable that a condition settles.
TEST(ShellScript, DecidesConditionsOfWhatItKnows) {
    const char* const holds[] = {"[ 1 = 1 ]",
                                 "[ \"$N\" -gt 3 ]",
                                 "test $N -le 4",
                                 "[[ $S == ab* ]]",
                                 "[[ $S != *x && 4 -eq $N ]]",
                                 "[[ -n $S && ! -z $S ]]",
                                 "(( N * 2 == 8 )) || [ $N -ne 3 ]",
                                 "! false",
                                 "[ \"$S\" = abc -a $N = 4 ]",
                                 "[ $N = 5 -o $S = abc ]",
                                 "[[ ( $N = 4 ) ]]",
                                 "[ -z \"$EMPTY\" ]",
                                 "[ -z \"${UNSET:-}\" ]",
                                 "false || true",
                                 "[ -f x ] || true",
                                 "! { [ -f x ] && false; }",
                                 "(( N >= 4 && (N != 5) ))"};
    for (const std::string condition : holds) {
        const std::string known = "N=4 S=abc EMPTY=\nA=(--a)\n";
        EXPECT_EQ(
            last(known + "if " + condition + "; then A+=(--b); else A=(--c); fi\nrun ${A[@]}"),
            (Texts{"run", "--a", "--b"}))
            << condition;
        EXPECT_EQ(last(known + "if ! { " + condition + "; }; then A=(--c); fi\nrun ${A[@]}"),
                  (Texts{"run", "--a"}))
            << condition;
    }
    EXPECT_EQ(last("A=1\nif false; then A=2; elif [ $A = 1 ]; then A=3; else A=4; fi\nrun $A"),
              (Texts{"run", "3"}));
    EXPECT_EQ(last("X=b\ncase $X in a) A=1 ;; b|c) A=2 ;; *) A=3 ;; esac\nrun $A"),
              (Texts{"run", "2"}));
    EXPECT_EQ(last("X=b\ncase $X in\n (a*)\n A=1\n ;;\n *)\n A=3\n esac\nrun $A"),
              (Texts{"run", "3"}));
}

// What all branches leave alike is settled; so is a default for what nobody gave.
TEST(ShellScript, ComparesTheBranchesOfAnOpenCondition) {
    EXPECT_EQ(last("if [ $X = 1 ]; then T=2; A=1; else T=2; A=3; fi\nrun $T $A"),
              (Texts{"run", "2", "open:$A:1|3"}));
    EXPECT_EQ(last("case $X in a) T=2 ;; *) T=2 ;; esac\nrun $T"), (Texts{"run", "2"}));
    EXPECT_EQ(last("case $X in a) T=2 ;; b) T=2 ;; esac\nrun $T"), (Texts{"run", "open:$T:2"}));
    EXPECT_EQ(last("if [ -z \"$X\" ]; then X=4; fi\nrun $X"), (Texts{"run", "4"}));
    EXPECT_EQ(last("[[ -n ${X} ]] || X=4\nrun $X"), (Texts{"run", "4"}));
    EXPECT_EQ(last(": ${X:=4}\nrun $X"), (Texts{"run", "4"}));
    EXPECT_EQ(last("T=1\nif [ -f $X ]; then T=2; exit 1; fi\nrun $T"), (Texts{"run", "1"}));
    EXPECT_EQ(last("run 1\n[ $X ] || exit\nrun 2"), (Texts{"run", "2"}));
    EXPECT_EQ(last("run 1\nexit\nrun 2"), (Texts{"exit"}));
    const ShellScript script = read_shell(
        "A='--a 1'\nif [ $X ]; then A=\"$A --b 2\"; else A+=' --c'; fi\nfor i in 1 2; do A+=' "
        "--d'; done\nrun $A");
    EXPECT_EQ(texts(script.commands.back()), (Texts{"run", "--a", "1"}));
    ASSERT_EQ(script.undecided.size(), 3u);
    EXPECT_EQ(texts(script.undecided[0].words), (Texts{"--b", "2"}));
    EXPECT_EQ(texts(script.undecided[1].words), (Texts{"--c"}));
    EXPECT_EQ(texts(script.undecided[2].words), (Texts{"--d"}));
}

TEST(ShellScript, RunsFunctions) {
    EXPECT_EQ(last("T=1\nf() {\n local T=$2\n run $1 $T \"$@\" ${3:-x}\n}\nf a b\n"),
              (Texts{"run", "a", "b", "a", "b", "x"}));
    EXPECT_EQ(last("function f { A=2; return; A=3; }\nA=1\nf\nrun $A"), (Texts{"run", "2"}));
    EXPECT_EQ(last("T=1\nf() { local T=2; }\nf\nrun $T"), (Texts{"run", "1"}));
    EXPECT_EQ(last("T=1\n(T=2; exit)\nrun $T"), (Texts{"run", "1"}));
    EXPECT_EQ(last("f() { run in; }\nrun out"), (Texts{"run", "out"}));
}

// Texts behind a command are no commands, but where a shell reads them.
TEST(ShellScript, PassesOverHereDocuments) {
    EXPECT_EQ(last("cat <<EOF > x.json\n{ \"a\": (1 }\n'\nEOF\nrun 1"), (Texts{"run", "1"}));
    EXPECT_EQ(last("cat <<-'E F' | tee y\n\ta\n\tE F\nrun 1"), (Texts{"run", "1"}));
    EXPECT_EQ(last("cat <<A <<B\n1\nA\n2\nB\nrun 1"), (Texts{"run", "1"}));
    EXPECT_EQ(last("N=2\nsbatch <<EOF\n#SBATCH --nodes=2\nX=3\nrun $N \\$X\nEOF\n"),
              (Texts{"run", "2", "3"}));
    EXPECT_EQ(last("run <<< \"a b\" 1"), (Texts{"run", "1"}));
}

TEST(ShellScript, KeepsTheEnvironmentAndTheBatchOptions) {
    const ShellScript script = read_shell(
        "#!/bin/bash\n#SBATCH --nodes=4 # four\n#SBATCH -n 32\nexport A=1\nB=2 run $A\n");
    EXPECT_EQ(texts(script.batch), (Texts{"--nodes=4", "-n", "32"}));
    EXPECT_EQ(texts(script.environment), (Texts{"A=1", "B=2"}));
    EXPECT_EQ(texts(script.commands.back()), (Texts{"run", "1"}));
}

// A job's variables say what it asked for, a range of nodes nothing.
TEST(ShellScript, KnowsWhatSlurmTellsAJob) {
    EXPECT_EQ(last("#SBATCH --nodes=16 --gpus-per-node 8 # all\n#SBATCH -n 128\n"
                   "run ${SLURM_NNODES:-1} $SLURM_NTASKS $((SLURM_GPUS_PER_NODE * 2))"),
              (Texts{"run", "16", "128", "16"}));
    EXPECT_EQ(last("#SBATCH -N 4-8\nrun ${SLURM_NNODES:-1}"), (Texts{"run", "1"}));
}

TEST(ShellScript, KnowsLines) {
    const ShellScript script = read_shell("A=(\n --a 1\n --b 2)\n\nrun \\\n  ${A[@]} \\\n  end");
    const std::vector<ShellWord>& words = script.commands.back();
    ASSERT_EQ(words.size(), 6u);
    EXPECT_EQ(words[0].line, 5);
    EXPECT_EQ(words[1].line, 2);
    EXPECT_EQ(words[4].line, 3);
    EXPECT_EQ(words[5].line, 7);
}

struct Wrong {
    std::string text, what;
    int line, column;
};

TEST(ShellScript, SaysWhereItStops) {
    const Wrong all[] = {
        {"a\n b 'c", "this ' is not closed", 2, 4},
        {"a \"b $x", "this \" is not closed", 1, 3},
        {"a `b", "this ` is not closed", 1, 3},
        {"a ${b", "this { is not closed", 1, 5},
        {"a $(b", "this ( is not closed", 1, 5},
        {"A=(b", "this array is not closed", 1, 4},
        {"cat <<EOF\nx\nEO", "this here-document is not closed", 1, 5},
        {"a )", "this ) closes nothing", 1, 3},
        {"a b (c)", "this ( opens nothing", 1, 6},
        {"case $x in", "this case has no esac", 1, 1},
        {"if a; then b", "what begins here has no elif", 1, 11},
        {"a\nwhile b; c", "what begins here has no do", 2, 6},
        {"[[ a", "this [[ has no ]]", 1, 1},
        {"f() { f; }\nf", "commands are nested more than 64 deep", 1, 8},
        {"A=aaaaaaaaaaaaaaaa\nA=$A$A$A$A$A$A$A$A\nA=$A$A$A$A$A$A$A$A\nA=$A$A$A$A$A$A$A$A\n"
         "A=$A$A$A$A$A$A$A$A\nA=$A$A$A$A$A$A$A$A$A",
         "a word of more than 64 KiB: not a command line", 6, 7},
    };
    for (const Wrong& wrong : all) {
        try {
            read_shell(wrong.text);
            ADD_FAILURE() << wrong.text;
        } catch (const ShellError& error) {
            EXPECT_EQ(error.what(), wrong.what);
            EXPECT_EQ(error.line, wrong.line) << wrong.text;
            EXPECT_EQ(error.column, wrong.column) << wrong.text;
        }
    }
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::plan::imports
