#ifndef SKIFF_TRANSPORT_LIBFABRIC_FABRIC_FABRIC_LINK_H_
#define SKIFF_TRANSPORT_LIBFABRIC_FABRIC_FABRIC_LINK_H_

#include <cstddef>

namespace skiff::transport {

// What binds a queue pair to a peer: the connection manager of one kind of
// endpoint. It begins the connection and ends it, and nothing of it is called
// for each operation. What it asks for is FabricQueuePair's to do.
class FabricLink {
 public:
  virtual ~FabricLink() = default;
  // The queue pair is about to close its endpoint; `tell_peer` unless the peer
  // ended the connection. False: not yet, FabricQueuePair::Close() comes later,
  // the endpoint perhaps gone before. Nothing is posted any more in either
  // case.
  virtual bool OnClosing(bool tell_peer) = 0;
  // A probe was sent, or came in with so many bytes; from inside
  // FabricCompletionQueue::Drain().
  virtual void OnProbeSent() {}
  virtual void OnProbe(size_t /*bytes*/) {}
  // Nobody looks at the completion queue for the time being: the peer has to
  // say when it is worth while.
  virtual void OnSleep() {}
  // At the end of a turn for which it was asked through
  // FabricQueuePair::ServeLink(). Callbacks to users are allowed.
  virtual void OnTurnEnd() {}
};

}  // namespace skiff::transport

#endif  // SKIFF_TRANSPORT_LIBFABRIC_FABRIC_FABRIC_LINK_H_
