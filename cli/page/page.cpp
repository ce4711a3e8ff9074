#include "cli/page/page.hpp"

#include <sstream>

#include <fmt/format.h>

#include "cli/chart.hpp"
#include "cli/output_kinds.hpp"
#include "cli/page/page_sections.hpp"

namespace orrery::cli {
namespace {

std::string section(const std::string& title, const std::string& content, const char* also = "") {
    return fmt::format("<section{}>\n<h2>{}</h2>\n{}</section>\n", also, escaped(title), content);
}

std::string timeline_html() {
    return R"(<div class="tools"><span id="legend"></span>
<label><input type="checkbox" id="show-path" checked> critical path</label>
<button id="whole" title="0">whole step</button></div>
<canvas id="timeline" tabindex="0" aria-label="timeline of the pipeline ranks"></canvas>
<div id="tip" hidden></div>
<p class="note">A row is a pipeline rank. <span class="screen">Wheel or <kbd>W</kbd> <kbd>S</kbd> zoom, drag or
<kbd>A</kbd> <kbd>D</kbd> move, <kbd>0</kbd> or a double click shows the whole step.</span> Colours stand
one above the other where a box has several: the height is the share of its time.
<span id="resolution"></span></p>
)";
}

}  // namespace

std::string page_html(const PageInput& input) {
    const ReportInput& report = input.explanation.report;
    std::ostringstream nowhere;
    const Console plain{nowhere, nowhere};
    const std::string head = headline_text(report, plain);
    const std::size_t first_line = head.find('\n');
    const std::string title = head.substr(0, first_line);
    std::string text(kPageBegins);
    text += fmt::format(
        "<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
        "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
        "<title>{}</title>\n<style>\n{}</style>\n</head>\n<body>\n<main>\n<h1>{}</h1>\n"
        "<pre class=\"head\">{}</pre>\n",
        escaped(title), kPageStyle, escaped(title), escaped(head.substr(first_line + 1)));
    text += tiles_html(report);
    text += "<div class=\"pair\"><div>\n" +
            section("Where the time goes, mean over ranks", accounts_html(report));
    if (report.prediction.memory.stages.size() > 1)
        text += section("Memory by pipeline rank, at its peak", memory_of_ranks_html(report));
    text += "</div><div>\n" + section("Memory of the fullest rank", memory_html(report)) +
            "</div></div>\n";
    text += section("Timeline of the pipeline", timeline_html(), " class=\"wide\"");
    text += section("Critical path, and what would shorten the step", path_html(input.explanation));
    if (input.run != nullptr)
        text += section("Where the days of the run go", days_html(*input.run));
    if (input.search != nullptr) text += section("Layouts", layouts_html(*input.search));
    text += "<section>\n<details>\n<summary><h2>The whole report as text</h2></summary>\n<pre>" +
            escaped(report_text(report, plain)) + "</pre>\n</details>\n</section>\n";
    return text + fmt::format(
                      "</main>\n<script type=\"application/json\" id=\"data\">{}</script>\n"
                      "<script>\n{}</script>\n</body>\n</html>\n",
                      page_data(input), kPageScript);
}

}  // namespace orrery::cli
