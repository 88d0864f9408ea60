// Contexts, the event loop, sessions and task management.
#include <poll.h>

#include <climits>
#include <cstdio>
#include <memory>
#include <string>

#include "tools/clients/libiscsi/context.h"
#include "tools/clients/libiscsi/entry.h"
#include "tools/clients/libiscsi/export.h"

namespace skiff::libiscsi {
namespace {

int RefuseTargetReset(iscsi_context* iscsi, iscsi_command_cb cb,
                      void* private_data) {
  constexpr uint32_t kNotSupported = 5;
  if (!iscsi->logged_in())
    return iscsi->Fail("task management needs a session");
  if (iscsi->CheckRoom() != 0) return -1;
  iscsi->SetError("Skiff resets logical units, not targets");
  return iscsi->Answer(cb, private_data, kGood, kNotSupported);
}

// As iscsi_task_mgmt_async(), for what it has no function of its own for.
int Manage(iscsi_context* iscsi, int lun, int function, iscsi_command_cb cb,
           void* private_data) {
  constexpr int kAbortTaskSet = 2;
  constexpr int kUnitReset = 5;
  if (function == kAbortTaskSet) return iscsi->AbortAll(lun, cb, private_data);
  if (function == kUnitReset) return iscsi->ResetUnit(lun, cb, private_data);
  return RefuseTargetReset(iscsi, cb, private_data);
}

// 0 if the function is complete; its response is RFC 7143's.
int ManageAndWait(iscsi_context* iscsi,
                  const std::function<int(iscsi_command_cb, void*)>& start) {
  struct Response {
    bool finished = false;
    bool complete = false;
  } response;
  const auto note = [](iscsi_context*, int status, void* data, void* user) {
    auto* const noted = static_cast<Response*>(user);
    noted->complete = status == kGood && *static_cast<uint32_t*>(data) == 0;
    noted->finished = true;
  };
  if (!Enter(iscsi) || start(note, &response) != 0) return -1;
  iscsi->TurnUntil(&response.finished);
  return response.complete ? 0 : -1;
}

}  // namespace

FACE iscsi_context* iscsi_create_context(const char* initiator_name) {
  if (initiator_name == nullptr || *initiator_name == '\0') return nullptr;
  return iscsi_context::Create(initiator_name);
}

FACE int iscsi_destroy_context(iscsi_context* iscsi) {
  if (iscsi == nullptr) return 0;
  // In a child, it only frees what is the child's.
  iscsi->Enter();
  return iscsi->Destroy();
}

FACE const char* iscsi_get_error(iscsi_context* iscsi) {
  return iscsi == nullptr ? "there is no iscsi_context" : iscsi->error();
}

FACE int iscsi_get_fd(iscsi_context* iscsi) {
  return iscsi == nullptr ? -1 : iscsi->fd();
}

FACE int iscsi_which_events(iscsi_context* iscsi) {
  if (!Enter(iscsi)) return 0;
  iscsi->Prepare();
  return POLLIN;
}

// The events only say that the program has waited.
FACE int iscsi_service(iscsi_context* iscsi, int /*revents*/) {
  if (!Enter(iscsi)) return -1;
  return iscsi->Turn(0);
}

FACE int iscsi_queue_length(iscsi_context* iscsi) {
  return iscsi == nullptr ? 0 : static_cast<int>(iscsi->calls());
}

FACE int iscsi_out_queue_length(iscsi_context* iscsi) {
  return iscsi == nullptr ? 0 : static_cast<int>(iscsi->waiting());
}

// --- Sessions.

FACE int iscsi_is_logged_in(iscsi_context* iscsi) {
  return iscsi != nullptr && iscsi->logged_in() ? 1 : 0;
}

FACE int iscsi_connect_async(iscsi_context* iscsi, const char* portal,
                             iscsi_command_cb cb, void* private_data) {
  return Enter(iscsi) ? iscsi->Connect(portal, cb, private_data) : -1;
}

FACE int iscsi_connect_sync(iscsi_context* iscsi, const char* portal) {
  if (!Enter(iscsi)) return -1;
  return RunAndWait(iscsi,
                    [&](iscsi_command_cb cb, void* data) {
                      return iscsi->Connect(portal, cb, data);
                    }) == kGood
             ? 0
             : -1;
}

FACE int iscsi_full_connect_async(iscsi_context* iscsi, const char* portal,
                                  int lun, iscsi_command_cb cb,
                                  void* private_data) {
  return Enter(iscsi) ? iscsi->FullConnect(portal, lun, cb, private_data) : -1;
}

FACE int iscsi_full_connect_sync(iscsi_context* iscsi, const char* portal,
                                 int lun) {
  if (!Enter(iscsi)) return -1;
  return RunAndWait(iscsi,
                    [&](iscsi_command_cb cb, void* data) {
                      return iscsi->FullConnect(portal, lun, cb, data);
                    }) == kGood
             ? 0
             : -1;
}

FACE int iscsi_login_async(iscsi_context* iscsi, iscsi_command_cb cb,
                           void* private_data) {
  return Enter(iscsi) ? iscsi->Login(cb, private_data) : -1;
}

FACE int iscsi_login_sync(iscsi_context* iscsi) {
  if (!Enter(iscsi)) return -1;
  return RunAndWait(iscsi,
                    [&](iscsi_command_cb cb, void* data) {
                      return iscsi->Login(cb, data);
                    }) == kGood
             ? 0
             : -1;
}

FACE int iscsi_logout_async(iscsi_context* iscsi, iscsi_command_cb cb,
                            void* private_data) {
  return Enter(iscsi) ? iscsi->Logout(cb, private_data) : -1;
}

FACE int iscsi_logout_sync(iscsi_context* iscsi) {
  if (!Enter(iscsi)) return -1;
  return RunAndWait(iscsi,
                    [&](iscsi_command_cb cb, void* data) {
                      return iscsi->Logout(cb, data);
                    }) == kGood
             ? 0
             : -1;
}

FACE int iscsi_disconnect(iscsi_context* iscsi) {
  return Enter(iscsi) ? iscsi->Disconnect() : -1;
}

FACE int iscsi_reconnect(iscsi_context* iscsi) {
  return Enter(iscsi) ? iscsi->Reconnect() : -1;
}

FACE int iscsi_reconnect_sync(iscsi_context* iscsi) {
  if (!Enter(iscsi) || iscsi->Reconnect() != 0) return -1;
  bool gone = false;
  while (!gone && !iscsi->logged_in()) {
    // A callback may have disconnected.
    if (!iscsi->logging_in())
      return iscsi->Fail("there is no session to wait for");
    if (iscsi->Turn(100, &gone) != 0) return -1;
  }
  return gone ? -1 : 0;
}

// --- NOPs.

FACE int iscsi_nop_out_async(iscsi_context* iscsi, iscsi_command_cb cb,
                             unsigned char* data, int len, void* private_data) {
  return Enter(iscsi) ? iscsi->Nop(cb, data, len, private_data) : -1;
}

FACE int iscsi_get_nops_in_flight(iscsi_context* iscsi) {
  return iscsi == nullptr ? 0 : static_cast<int>(iscsi->nops_in_flight());
}

// --- Task management.

FACE int iscsi_task_mgmt_abort_task_async(iscsi_context* iscsi, scsi_task* task,
                                          iscsi_command_cb cb,
                                          void* private_data) {
  if (!Enter(iscsi)) return -1;
  if (task == nullptr) return iscsi->Fail("there is no task to abort");
  return iscsi->Abort(task, cb, private_data);
}

FACE int iscsi_task_mgmt_async(iscsi_context* iscsi, int lun, int function,
                               uint32_t ritt, uint32_t /*rcmdsn*/,
                               iscsi_command_cb cb, void* private_data) {
  constexpr int kAbortTask = 1;
  if (!Enter(iscsi)) return -1;
  if (function != kAbortTask) {
    return Manage(iscsi, lun, function, cb, private_data);
  }
  return iscsi->Abort(iscsi->TaskOf(ritt), cb, private_data);
}

FACE int iscsi_task_mgmt_abort_task_set_async(iscsi_context* iscsi,
                                              uint32_t lun, iscsi_command_cb cb,
                                              void* private_data) {
  if (!Enter(iscsi)) return -1;
  return iscsi->AbortAll(static_cast<int>(lun), cb, private_data);
}

FACE int iscsi_task_mgmt_lun_reset_async(iscsi_context* iscsi, uint32_t lun,
                                         iscsi_command_cb cb,
                                         void* private_data) {
  if (!Enter(iscsi)) return -1;
  return iscsi->ResetUnit(static_cast<int>(lun), cb, private_data);
}

FACE int iscsi_task_mgmt_target_warm_reset_async(iscsi_context* iscsi,
                                                 iscsi_command_cb cb,
                                                 void* private_data) {
  return Enter(iscsi) ? RefuseTargetReset(iscsi, cb, private_data) : -1;
}

FACE int iscsi_task_mgmt_target_cold_reset_async(iscsi_context* iscsi,
                                                 iscsi_command_cb cb,
                                                 void* private_data) {
  return Enter(iscsi) ? RefuseTargetReset(iscsi, cb, private_data) : -1;
}

FACE int iscsi_task_mgmt_sync(iscsi_context* iscsi, int lun, int function,
                              uint32_t ritt, uint32_t rcmdsn) {
  return ManageAndWait(iscsi, [&](iscsi_command_cb cb, void* data) {
    return iscsi_task_mgmt_async(iscsi, lun, function, ritt, rcmdsn, cb, data);
  });
}

FACE int iscsi_task_mgmt_abort_task_sync(iscsi_context* iscsi,
                                         scsi_task* task) {
  return ManageAndWait(iscsi, [&](iscsi_command_cb cb, void* data) {
    return iscsi_task_mgmt_abort_task_async(iscsi, task, cb, data);
  });
}

FACE int iscsi_task_mgmt_abort_task_set_sync(iscsi_context* iscsi,
                                             uint32_t lun) {
  return ManageAndWait(iscsi, [&](iscsi_command_cb cb, void* data) {
    return iscsi->AbortAll(static_cast<int>(lun), cb, data);
  });
}

FACE int iscsi_task_mgmt_lun_reset_sync(iscsi_context* iscsi, uint32_t lun) {
  return ManageAndWait(iscsi, [&](iscsi_command_cb cb, void* data) {
    return iscsi->ResetUnit(static_cast<int>(lun), cb, data);
  });
}

FACE int iscsi_task_mgmt_target_warm_reset_sync(iscsi_context* iscsi) {
  return ManageAndWait(iscsi, [&](iscsi_command_cb cb, void* data) {
    return RefuseTargetReset(iscsi, cb, data);
  });
}

FACE int iscsi_task_mgmt_target_cold_reset_sync(iscsi_context* iscsi) {
  return iscsi_task_mgmt_target_warm_reset_sync(iscsi);
}

}  // namespace skiff::libiscsi
