#include "tools/metrics/initiator_totals.h"

#include <utility>

namespace skiff::tools::metrics {
namespace {

constexpr char kOthers[] = "others";

constexpr uint64_t scsi::CommandCounts::*kCounted[] = {
    &scsi::CommandCounts::reads,         &scsi::CommandCounts::writes,
    &scsi::CommandCounts::others,        &scsi::CommandCounts::read_bytes,
    &scsi::CommandCounts::written_bytes, &scsi::CommandCounts::check_conditions,
    &scsi::CommandCounts::busy,          &scsi::CommandCounts::aborted,
};

// Adds what came between both.
void AddProgress(const scsi::CommandCounts& before,
                 const scsi::CommandCounts& after, scsi::CommandCounts* sum) {
  for (const auto counter : kCounted) {
    if (after.*counter > before.*counter) {
      sum->*counter += after.*counter - before.*counter;
    }
  }
  sum->in_flight += after.in_flight;
}

}  // namespace

void InitiatorTotals::Expire(absl::Time now) {
  const auto old = [&](absl::Time seen) { return now - seen >= options_.keep; };
  std::erase_if(initiators_, [&](const auto& one) { return old(one.second); });
  std::erase_if(entries_,
                [&](const auto& one) { return old(one.second.seen); });
}

InitiatorTotals::Key InitiatorTotals::KeyOf(
    const protocol::SessionInfo& session, absl::Time now) {
  const auto found = initiators_.find(session.initiator_name);
  if (found != initiators_.end()) found->second = now;
  const bool known = found != initiators_.end() ||
                     (initiators_.size() < options_.max_initiators &&
                      initiators_.emplace(session.initiator_name, now).second);
  // A discovery session may name anything.
  return {session.discovery ? std::string() : session.target_name,
          known ? session.initiator_name : kOthers,
          session.connection.data_model, session.connection.transport};
}

void InitiatorTotals::Update(const std::vector<protocol::SessionInfo>& sessions,
                             absl::Time now) {
  for (auto& [key, entry] : entries_) {
    entry.sessions = 0;
    entry.counts.in_flight = 0;
  }
  // First those that are known: they keep their places.
  std::map<uint64_t, Seen> before = std::exchange(sessions_, {});
  for (const protocol::SessionInfo& session : sessions) {
    const auto known = initiators_.find(session.initiator_name);
    if (session.logged_in && known != initiators_.end()) known->second = now;
  }
  Expire(now);
  for (const protocol::SessionInfo& session : sessions) {
    // Until then, names are whatever somebody says.
    if (!session.logged_in) continue;
    const auto last = before.find(session.id);
    const bool is_new = last == before.end();
    Key key = is_new ? KeyOf(session, now) : std::move(last->second.key);
    Entry& entry = entries_[key];
    entry.seen = now;
    ++entry.sessions;
    AddProgress(is_new ? scsi::CommandCounts() : last->second.counts,
                session.counts, &entry.counts);
    sessions_[session.id] = {std::move(key), session.counts};
  }
}

std::vector<InitiatorTotal> InitiatorTotals::Get() const {
  std::vector<InitiatorTotal> all;
  for (const auto& [key, entry] : entries_) {
    const auto& [target, initiator, data_model, transport] = key;
    all.push_back({target, initiator, data_model, transport, entry.sessions,
                   entry.counts});
  }
  return all;
}

}  // namespace skiff::tools::metrics
