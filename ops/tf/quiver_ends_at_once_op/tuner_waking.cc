#include "ops/tf/quiver_ends_at_once_op/tuner_waking.h"

#include "tensorflow/core/platform/mutex.h"

namespace tfquiver {

using tensorflow::data::model::Model;

// No public call wakes it. Defined for the versions whose members have these names.
#ifdef TFQUIVER_TF_TUNER
void WakeTuner(Model* model);

// What the time between turns, which doubles each time, begins with.
constexpr int kFirstPeriodMs = 10;

// An explicit instantiation may name what is private ([temp.explicit] in C++17).
template <auto kMutex, auto kTurn, auto kPeriodMs>
struct TunerMembers {
  friend void WakeTuner(Model* model) {
    tensorflow::mutex_lock lock(model->*kMutex);  // between its look and its wait nobody hears
    model->*kPeriodMs = kFirstPeriodMs;
    (model->*kTurn).notify_all();
  }
};
template struct TunerMembers<&Model::mu_, &Model::optimize_cond_var_,
                             &Model::optimization_period_ms_>;
#else
void WakeTuner(Model*) {}
#endif

TunerWaking::~TunerWaking() {
  if (model_ != nullptr) WakeTuner(model_.get());
}

}  // namespace tfquiver
