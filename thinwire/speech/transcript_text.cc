#include "thinwire/speech/transcript_text.h"

#include <cmath>
#include <iomanip>
#include <nlohmann/json.hpp>
#include <sstream>

namespace thinwire::speech {
namespace {

using Json = nlohmann::ordered_json;

// Milliseconds for times, four digits for probabilities.
double Rounded(double x, double parts) { return std::round(x * parts) / parts; }

}  // namespace

std::string TimeText(double seconds, char separator) {
  const auto all = std::llround(seconds * 1000);
  std::ostringstream text;
  text << std::setfill('0') << std::setw(2) << all / 3600000 << ':' << std::setw(2)
       << all / 60000 % 60 << ':' << std::setw(2) << all / 1000 % 60 << separator << std::setw(3)
       << all % 1000;
  return text.str();
}

std::string SrtText(const SpokenSegment& segment, int64_t number) {
  std::ostringstream text;
  text << number << '\n'
       << TimeText(segment.begin, ',') << " --> " << TimeText(segment.end, ',') << '\n'
       << segment.text << "\n\n";
  return text.str();
}

std::string JsonText(const Transcript& transcript) {
  Json segments = Json::array();
  std::string text;
  for (const SpokenSegment& segment : transcript.segments) {
    text += (text.empty() ? "" : " ") + segment.text;
    segments.push_back({{"begin", Rounded(segment.begin, 1e3)},
                        {"end", Rounded(segment.end, 1e3)},
                        {"text", segment.text},
                        {"mean_log_probability", Rounded(segment.mean_log_probability, 1e4)},
                        {"no_speech", Rounded(segment.no_speech, 1e4)},
                        {"temperature", segment.temperature}});
  }
  const Json json = {{"language", transcript.language},
                     {"seconds", Rounded(transcript.seconds, 1e3)},
                     {"text", text},
                     {"segments", segments}};
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + '\n';
}

}  // namespace thinwire::speech
