#ifndef TFQUIVER_OPS_TF_EXACTLY_ONCE_OWN_RUNTIME_H_
#define TFQUIVER_OPS_TF_EXACTLY_ONCE_OWN_RUNTIME_H_

#include <memory>

#include "tensorflow/core/common_runtime/process_function_library_runtime.h"
#include "tensorflow/core/framework/cancellation.h"
#include "tensorflow/core/framework/dataset.h"
#include "tensorflow/core/framework/function.h"
#include "tensorflow/core/framework/function_handle_cache.h"
#include "tensorflow/core/framework/resource_mgr.h"
#include "tensorflow/core/platform/threadpool.h"

namespace tfquiver {

// All that an iterator uses of the one above it, but its own: so that it may live longer. What is
// shared are devices and allocators, which live as long as TensorFlow's context.
class OwnRuntime {
 public:
  // `input` must outlive this. Fails when `ctx` can run no functions.
  static absl::Status Make(tensorflow::data::IteratorContext* ctx,
                           const tensorflow::data::DatasetBase* input,
                           std::unique_ptr<OwnRuntime>* out);

  // Lives as long as this. Autotuning is off: a model is the business of the iterators above.
  tensorflow::data::IteratorContext* context() { return context_.get(); }
  tensorflow::CancellationManager& cancellation() { return cancellation_; }

 private:
  OwnRuntime() = default;

  tensorflow::CancellationManager cancellation_;
  tensorflow::ResourceMgr resources_;
  std::unique_ptr<tensorflow::thread::ThreadPool> pool_;
  std::unique_ptr<tensorflow::FunctionLibraryDefinition> definitions_;
  std::unique_ptr<tensorflow::ProcessFunctionLibraryRuntime> functions_;
  std::unique_ptr<tensorflow::FunctionHandleCache> handles_;
  std::unique_ptr<tensorflow::data::IteratorContext> context_;
};

}  // namespace tfquiver

#endif  // TFQUIVER_OPS_TF_EXACTLY_ONCE_OWN_RUNTIME_H_
