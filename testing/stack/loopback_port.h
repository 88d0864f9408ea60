#ifndef SKIFF_TESTING_STACK_LOOPBACK_PORT_H_
#define SKIFF_TESTING_STACK_LOOPBACK_PORT_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <string>

#include "scsi/initiator/command.h"
#include "scsi/target/target.h"
#include "scsi/target/task.h"
#include "transport/reactor/epoll_reactor.h"

namespace skiff::scsi {

// An initiator port and a target port with nothing in between: commands reach a
// target's device servers as tasks, without any transport. For tests of both
// ends.
class LoopbackPort : public CommandPort,
                     public TargetPort,
                     private transport::TurnHook {
 public:
  // `name` tells the initiators apart.
  LoopbackPort(transport::EpollReactor* reactor, Target* target, Worker* worker,
               const std::string& name);
  ~LoopbackPort() override;

  void Submit(Command* command) override;
  void Abort(Command* command) override;

  TransferResult ReceiveDataOut(Task* task, uint32_t offset, uint8_t* to,
                                uint32_t length) override;
  void SendDataIn(Task* task, uint32_t offset, const uint8_t* from,
                  uint32_t length) override;
  void Complete(Task* task, uint32_t offset, const uint8_t* from,
                uint32_t length) override;
  void Aborted(Task* task, bool respond) override;
  void CancelTransfers(Task* task) override;
  void AsyncEvent(uint64_t lun, const uint8_t* sense, size_t length) override;
  // Everything is taken in the turn it comes, so that nobody has to wait.
  uint64_t DataInTaken() const override { return 0; }
  void EndNexus(absl::string_view) override {}

 private:
  struct Event {
    enum class Kind : uint8_t { kSent, kEnded } kind;
    Task* task;
    bool ok;
  };

  static Command* CommandOf(Task* task) {
    return static_cast<Command*>(task->port_context);
  }
  Task* TaskOf(const Command* command);
  // What comes back comes at the end of the turn.
  void Queue(const Event& event);
  void OnTurnEnd() override;

  transport::EpollReactor* reactor_;
  std::deque<Task> tasks_;  // Never shrinks: tasks keep their addresses.
  std::deque<Task*> free_;
  std::deque<Event> events_;
  uint64_t next_tag_ = 0;
  std::unique_ptr<Nexus> nexus_;
};

}  // namespace skiff::scsi

#endif  // SKIFF_TESTING_STACK_LOOPBACK_PORT_H_
