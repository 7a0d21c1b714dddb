#include "io/base/units.h"

#include <doctest/doctest.h>

#include "io/base/checked.h"
#include "io/base/error.h"

namespace tidemill {
namespace {

TEST_CASE("byte sizes are read as people write them") {
  CHECK(parse_bytes("4096") == 4096);
  CHECK(parse_bytes("2GiB") == 2 * kGiB);
  CHECK(parse_bytes("2G") == 2 * kGiB);
  CHECK(parse_bytes("1.5 MiB") == kMiB + kMiB / 2);
  CHECK(parse_bytes("2GB") == 2'000'000'000);
  CHECK(parse_bytes("64k") == 64 * kKiB);
  for (const char* bad :
       {"", "GiB", "-1", "1.5.2", "2 XB", "nan", "inf", "1e99T", "99999999T", "1 k k"}) {
    CAPTURE(bad);
    CHECK_THROWS_AS(parse_bytes(bad), Error);
  }
}

TEST_CASE("byte sizes are printed in binary units, rates in decimal ones") {
  CHECK(format_bytes(0) == "0 B");
  CHECK(format_bytes(1536) == "1.50 KiB");
  CHECK(format_bytes(2 * kGiB) == "2 GiB");
  CHECK(format_rate(2.5e9) == "2.50 GB/s");
  CHECK(format_rate(3.2e6) == "3.2 MB/s");
}

TEST_CASE("arithmetic on untrusted numbers does not wrap") {
  CHECK(checked_mul(1ULL << 31, 1ULL << 32, "x") == 1ULL << 63);
  CHECK_THROWS_AS(checked_mul(1ULL << 32, 1ULL << 32, "x"), Error);
  CHECK_THROWS_AS(checked_add(~0ULL, 1, "x"), Error);
  CHECK(align_up(4097, 4096) == 8192);
  CHECK(align_down(4097, 4096) == 4096);
}

TEST_CASE("names from files are printable: no control character reaches a terminal") {
  CHECK(printable("plain") == "plain");
  CHECK(printable("\x1b[2J") == "\\x1b[2J");
  CHECK(printable("caf\xC3\xA9") == "caf\xC3\xA9");
  CHECK(printable("\xC2\x9B") == "\\xc2\\x9b");  // C1 control sequence introducer
  CHECK(printable("\xFF") == "\\xff");
  CHECK(printable(std::string(300, 'a'), 10) == "aaaaaaaaaa...");
}

}  // namespace
}  // namespace tidemill
