#include "ops/core/bytes_checksums_tfrecords/crc32c.h"

#include <array>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__) && defined(__linux__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

namespace tfquiver {
namespace {

constexpr uint32_t kPolynomial = 0x82f63b78;  // Castagnoli's, bits reflected

uint64_t Word(const char* data) {
  uint64_t word;
  std::memcpy(&word, data, sizeof(word));
  return word;
}

// tables[n][b]: what becomes of byte b when n zero bytes follow it.
using Tables = std::array<std::array<uint32_t, 256>, 8>;

Tables MakeTables() {
  Tables tables;
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = crc & 1 ? crc >> 1 ^ kPolynomial : crc >> 1;
    tables[0][byte] = crc;
  }
  for (size_t n = 1; n < tables.size(); ++n) {
    for (size_t byte = 0; byte < 256; ++byte) {
      const uint32_t before = tables[n - 1][byte];
      tables[n][byte] = before >> 8 ^ tables[0][before & 255];
    }
  }
  return tables;
}

}  // namespace

uint32_t PortableCrc32c(uint32_t crc, const char* data, size_t size) {
  static const Tables tables = MakeTables();
  const char* const end = data + size;
  crc = ~crc;
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
  for (; end - data >= 8; data += 8) {
    const uint64_t word = Word(data) ^ crc;
    crc = 0;
    for (size_t i = 0; i < 8; ++i) crc ^= tables[7 - i][word >> (8 * i) & 255];
  }
#endif
  for (; data < end; ++data) crc = crc >> 8 ^ tables[0][(crc ^ static_cast<uint8_t>(*data)) & 255];
  return ~crc;
}

#if defined(__x86_64__)
namespace {

// The instruction gives a result after three cycles but can start one every cycle: three streams
// run side by side, and their CRCs are joined by moving the earlier ones over the bytes that the
// later ones cover.
constexpr size_t kLongBytes = 4096;  // of one stream
constexpr size_t kShortBytes = 256;

// What becomes of a CRC register when kBytes zero bytes follow: linear, so four table look-ups.
template <size_t kBytes>
class ZeroBytes {
 public:
  ZeroBytes() {
    std::array<uint32_t, 32> bits;
    for (size_t bit = 0; bit < 32; ++bit) {
      uint32_t crc = uint32_t{1} << bit;
      for (size_t i = 0; i < 8 * kBytes; ++i) crc = crc & 1 ? crc >> 1 ^ kPolynomial : crc >> 1;
      bits[bit] = crc;
    }
    for (size_t byte = 0; byte < 4; ++byte) {
      for (uint32_t value = 0; value < 256; ++value) {
        uint32_t crc = 0;
        for (size_t bit = 0; bit < 8; ++bit) {
          if (value >> bit & 1) crc ^= bits[8 * byte + bit];
        }
        table_[byte][value] = crc;
      }
    }
  }

  uint32_t After(uint32_t crc) const {
    return table_[0][crc & 255] ^ table_[1][crc >> 8 & 255] ^ table_[2][crc >> 16 & 255] ^
           table_[3][crc >> 24];
  }

 private:
  uint32_t table_[4][256];
};

template <size_t kBytes>
__attribute__((target("sse4.2"))) const char* ThreeStreams(const char* data, const char* end,
                                                           uint64_t* crc) {
  static const ZeroBytes<kBytes> zeros;
  while (static_cast<size_t>(end - data) >= 3 * kBytes) {
    uint64_t first = *crc;
    uint64_t second = 0;
    uint64_t third = 0;
    for (size_t i = 0; i < kBytes; i += 8) {
      first = _mm_crc32_u64(first, Word(data + i));
      second = _mm_crc32_u64(second, Word(data + kBytes + i));
      third = _mm_crc32_u64(third, Word(data + 2 * kBytes + i));
    }
    const uint32_t joined =
        zeros.After(static_cast<uint32_t>(first)) ^ static_cast<uint32_t>(second);
    *crc = zeros.After(joined) ^ static_cast<uint32_t>(third);
    data += 3 * kBytes;
  }
  return data;
}

// x^n, as CRC registers have it.
uint32_t PowerOfX(size_t n) {
  uint32_t power = uint32_t{1} << 31;
  for (; n > 0; --n) power = power & 1 ? power >> 1 ^ kPolynomial : power >> 1;
  return power;
}

#define TFQUIVER_WIDE "avx512f,avx512dq,avx512vl,vpclmulqdq,pclmul,sse4.2"

// 64 bytes times x^kBits, of which nothing is left but what counts: four products of 128 bits each.
template <size_t kBits>
class Folded {
 public:
  Folded() : high_(PowerOfX(kBits + 31)), low_(PowerOfX(kBits - 33)) {}
  __attribute__((target(TFQUIVER_WIDE))) __m512i Times() const {
    return _mm512_set_epi64(low_, high_, low_, high_, low_, high_, low_, high_);
  }

 private:
  const int64_t high_, low_;
};

__attribute__((target(TFQUIVER_WIDE))) inline __m512i Fold(__m512i bytes, __m512i times,
                                                           __m512i next) {
  // 0x96: all three, added.
  return _mm512_ternarylogic_epi64(_mm512_clmulepi64_epi128(bytes, times, 0x00),
                                   _mm512_clmulepi64_epi128(bytes, times, 0x11), next, 0x96);
}

// Whole pieces of 256 bytes: four of 64 side by side, folded into those that follow them, and at
// the end into 16 bytes that have the same CRC.
__attribute__((target(TFQUIVER_WIDE))) const char* Wide(const char* data, const char* end,
                                                        uint64_t* crc) {
  constexpr size_t kBytes = 64;
  static const Folded<8 * 4 * kBytes> by_four;
  static const Folded<8 * kBytes> by_one;
  static const Folded<128> by_lane;
  const __m512i four = by_four.Times();
  __m512i state[4];
  for (size_t i = 0; i < 4; ++i) state[i] = _mm512_loadu_si512(data + i * kBytes);
  state[0] = _mm512_xor_si512(
      state[0], _mm512_zextsi128_si512(_mm_cvtsi64_si128(static_cast<int64_t>(*crc))));
  for (data += 4 * kBytes; static_cast<size_t>(end - data) >= 4 * kBytes; data += 4 * kBytes) {
    for (size_t i = 0; i < 4; ++i) {
      state[i] = Fold(state[i], four, _mm512_loadu_si512(data + i * kBytes));
    }
  }
  __m512i all = state[0];
  for (size_t i = 1; i < 4; ++i) all = Fold(all, by_one.Times(), state[i]);
  alignas(64) uint64_t words[8];
  _mm512_store_si512(words, all);
  const __m512i lane = by_lane.Times();
  __m512i last = _mm512_zextsi128_si512(_mm_load_si128(reinterpret_cast<const __m128i*>(words)));
  for (size_t i = 1; i < 4; ++i) {
    last = Fold(
        last, lane,
        _mm512_zextsi128_si512(_mm_load_si128(reinterpret_cast<const __m128i*>(words + 2 * i))));
  }
  _mm512_store_si512(words, last);
  *crc = _mm_crc32_u64(_mm_crc32_u64(0, words[0]), words[1]);
  return data;
}

__attribute__((target("sse4.2"))) uint32_t Hardware(uint32_t crc, const char* data, size_t size) {
  const char* const end = data + size;
  uint64_t state = ~crc;
  data = ThreeStreams<kLongBytes>(data, end, &state);
  data = ThreeStreams<kShortBytes>(data, end, &state);
  for (; end - data >= 8; data += 8) state = _mm_crc32_u64(state, Word(data));
  auto last = static_cast<uint32_t>(state);
  for (; data < end; ++data) last = _mm_crc32_u8(last, static_cast<uint8_t>(*data));
  return ~last;
}

constexpr size_t kLeastWideBytes = 1024;

__attribute__((target("sse4.2"))) uint32_t WideHardware(uint32_t crc, const char* data,
                                                        size_t size) {
  if (size < kLeastWideBytes) return Hardware(crc, data, size);
  uint64_t state = ~crc;
  const char* const end = data + size;
  data = Wide(data, end, &state);
  return Hardware(~static_cast<uint32_t>(state), data, static_cast<size_t>(end - data));
}

bool HasWide() {
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("vpclmulqdq") &&
         __builtin_cpu_supports("pclmul");
}

}  // namespace

std::vector<Crc32cExtend> OwnCrc32c() {
  if (!__builtin_cpu_supports("sse4.2")) return {};
  if (!HasWide()) return {&Hardware};
  return {&Hardware, &WideHardware};
}

#undef TFQUIVER_WIDE

#elif defined(__aarch64__) && defined(__linux__)
namespace {

__attribute__((target("+crc"))) uint32_t Hardware(uint32_t crc, const char* data, size_t size) {
  const char* const end = data + size;
  crc = ~crc;
  for (; end - data >= 8; data += 8) crc = __builtin_aarch64_crc32cx(crc, Word(data));
  for (; data < end; ++data) crc = __builtin_aarch64_crc32cb(crc, static_cast<uint8_t>(*data));
  return ~crc;
}

}  // namespace

std::vector<Crc32cExtend> OwnCrc32c() {
  if ((getauxval(AT_HWCAP) & HWCAP_CRC32) == 0) return {};
  return {&Hardware};
}

#else

std::vector<Crc32cExtend> OwnCrc32c() { return {}; }

#endif

Crc32cExtend FastestCrc32c(Crc32cExtend fallback) {
  const std::vector<Crc32cExtend> own = OwnCrc32c();
  return own.empty() ? fallback : own.back();
}

}  // namespace tfquiver
