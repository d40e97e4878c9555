#ifndef TFQUIVER_OPS_TF_SHARED_STRINGS_H_
#define TFQUIVER_OPS_TF_SHARED_STRINGS_H_

#include <cstddef>
#include <memory>
#include <type_traits>
#include <utility>

#include "ops/core/record_memory/blobs.h"
#include "tensorflow/core/platform/tstring.h"

namespace tfquiver {

// Strings that share memory, counted, as TensorFlow has them since 2.21. (A plain view is of no
// use: whoever copies a string of a tensor copies the view, and nobody knows when it dangles.)
template <typename String, typename = void>
struct SharedStrings {
  static constexpr bool kAreThere = false;
  static void* Own(std::unique_ptr<HeldMemory>) { return nullptr; }
  static void LetGo(void*) {}
  static void Assign(const char* data, size_t size, void*, String* to) { to->assign(data, size); }
};

template <typename String>
struct SharedStrings<String,
                     std::void_t<typename String::template owner<std::unique_ptr<HeldMemory>>>> {
  using Owner = typename String::template owner<std::unique_ptr<HeldMemory>>;

  static constexpr bool kAreThere = true;
  static void* Own(std::unique_ptr<HeldMemory> memory) { return new Owner(std::move(memory)); }
  static void LetGo(void* owner) { static_cast<Owner*>(owner)->Unref(); }
  static void Assign(const char* data, size_t size, void* owner, String* to) {
    to->assign_as_shared_view(data, size, static_cast<Owner*>(owner));
  }
};

// A shorter one lies in the string itself, which costs less than to count who shares it.
inline constexpr size_t kLeastSharedBytes = 23;

using SharedTstrings = SharedStrings<tensorflow::tstring>;

}  // namespace tfquiver

#endif  // TFQUIVER_OPS_TF_SHARED_STRINGS_H_
