// What a command prints of a file: text made safe for a terminal, and tables.
#pragma once

#include <iosfwd>
#include <string>
#include <string_view>
#include <vector>

namespace thinwire::app {

// Text from a file, on one line and without control characters for the terminal.
std::string Safe(std::string_view text);

using Row = std::vector<std::string>;

// Two spaces before the first column and between columns, each as wide as its widest cell.
void PrintTable(const std::vector<Row>& rows, std::ostream& out);

}  // namespace thinwire::app
