# cmake -D STYLE=page.css -D SCRIPT=page.js -D OUTPUT=FILE -P embed.cmake: writes FILE, which defines what
# cli/page/page_sections.hpp declares of the page's style and script.
file(READ ${STYLE} style)
file(READ ${SCRIPT} script)
file(WRITE ${OUTPUT} "#include \"cli/page/page_sections.hpp\"

namespace orrery::cli {

const std::string_view kPageStyle = R\"EMBEDDED(${style})EMBEDDED\";
const std::string_view kPageScript = R\"EMBEDDED(${script})EMBEDDED\";

}  // namespace orrery::cli
")
