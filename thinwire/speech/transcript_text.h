// A transcript as text, subtitles and JSON.
#pragma once

#include <string>

#include "thinwire/speech/transcriber.h"

namespace thinwire::speech {

// 0:01:02.345 with `separator` before the milliseconds and two digits for hours: "00:01:02,345".
std::string TimeText(double seconds, char separator);

// A segment as SubRip (.srt) has it, `number` from 1 on, with the empty line behind it.
std::string SrtText(const SpokenSegment& segment, int64_t number);

// {"language", "seconds", "text", "segments": [{"begin", "end", "text", "mean_log_probability",
// "no_speech", "temperature"}]} and a line feed; times in seconds.
std::string JsonText(const Transcript& transcript);

}  // namespace thinwire::speech
