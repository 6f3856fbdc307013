#include "dataplane/transmit_path.h"

#include <cerrno>
#include <cstring>
#include <optional>

#include "dataplane/bridge/frame.h"
#include "dataplane/io/checksum.h"
#include "dataplane/io/virtio_net_header.h"

namespace ringswitch {
namespace {

using bridge::DropReason;
using bridge::PortIndex;
using bridge::TagEdit;

DropReason DropReasonOf(int error) {
  switch (error) {
    case EIO:
    case ENETDOWN:
      return DropReason::kEgressPortDown;
    case EBADFD:
    case EBADF:
    case ENXIO:
    case ENODEV:
      return DropReason::kEgressDeviceGone;
    case EINVAL:
      return DropReason::kEgressRefused;
    case EMSGSIZE:
      return DropReason::kEgressMtuExceeded;
    case EAGAIN:
    case ENOBUFS:
    case ENOMEM:
      return DropReason::kEgressQueueFull;
    default:
      return DropReason::kEgressError;
  }
}

}  // namespace

TransmitPath::TransmitPath(io::Ring* ring, io::BufferPool* pool, std::span<bridge::PortCounters> counters,
                           const CaptureTap* capture, std::vector<io::Completion>* arrivals)
    : ring_(ring),
      pool_(pool),
      transmitter_(ring, pool),
      counters_(counters),
      capture_(capture),
      arrivals_(arrivals) {}

void TransmitPath::SetPort(PortIndex port, bool takes_offload) {
  without_offload_[port] = !takes_offload;
}

// --- forms ---

void TransmitPath::Forward(const bridge::Decision& decision, FrameForm original) {
  const bool some_tagged = decision.tagged_count != 0;
  if (some_tagged && decision.tagged_count != decision.egress.size()) {
    ForwardMixed(decision, original);
    return;
  }
  Edit(&original, some_tagged ? decision.tagged_edit : decision.untagged_edit, decision);
  for (const bridge::Egress& egress : decision.egress) Queue(egress.port, original);
}

// Both forms are needed: one is made in a copy, the frame as received (or edited in place) is the other.
void TransmitPath::ForwardMixed(const bridge::Decision& decision, FrameForm original) {
  const bool copy_is_tagged = decision.tagged_edit != TagEdit::kNone;
  FrameForm copy{TakeReserveBuffer(), nullptr, original.length};
  const bool has_copy = copy.buffer != io::BufferPool::kNoBuffer;
  if (has_copy) {
    copy.header = pool_->header(copy.buffer);
    std::memcpy(copy.header, original.header, io::kVirtioNetHeaderSize + original.length);
    Edit(&copy, copy_is_tagged ? decision.tagged_edit : decision.untagged_edit, decision);
  }
  Edit(&original, copy_is_tagged ? decision.untagged_edit : decision.tagged_edit, decision);
  for (const bridge::Egress& egress : decision.egress) {
    if (egress.tagged != copy_is_tagged) {
      Queue(egress.port, original);
    } else if (has_copy) {
      Queue(egress.port, copy);
    } else {
      Drop(egress.port, DropReason::kEgressNoBuffer, original);
    }
  }
  if (has_copy) pool_->Release(copy.buffer);
}

void TransmitPath::Edit(FrameForm* form, TagEdit edit, const bridge::Decision& decision) {
  constexpr int kTag = static_cast<int>(bridge::kTagLength);
  switch (edit) {
    case TagEdit::kNone:
      break;
    case TagEdit::kSetVid:
      bridge::SetVid(form->frame(), decision.vid);
      break;
    case TagEdit::kPush: {
      uint8_t* frame = form->frame();
      std::memmove(form->header - kTag, form->header, io::kVirtioNetHeaderSize);
      bridge::PushTag(frame, decision.tci);
      form->header -= kTag;
      form->length += kTag;
      io::MoveOffsets(form->header, kTag);
      break;
    }
    case TagEdit::kPop:
      bridge::PopTag(form->frame());
      std::memmove(form->header + kTag, form->header, io::kVirtioNetHeaderSize);
      form->header += kTag;
      form->length -= kTag;
      io::MoveOffsets(form->header, -kTag);
      break;
  }
}

uint16_t TransmitPath::TakeReserveBuffer() {
  uint16_t buffer = pool_->TakeReserve();
  if (buffer == io::BufferPool::kNoBuffer) {
    Submit();
    buffer = pool_->TakeReserve();
  }
  if (buffer == io::BufferPool::kNoBuffer) {
    AdvanceAndCollect();
    buffer = pool_->TakeReserve();
  }
  return buffer;
}

// --- queueing ---

void TransmitPath::Queue(PortIndex port, const FrameForm& form) {
  if (without_offload_[port] && io::HasOffload(form.header)) {
    QueueWithoutOffload(port, form);
    return;
  }
  Write(port, form);
}

void TransmitPath::QueueWithoutOffload(PortIndex port, const FrameForm& form) {
  const io::VirtioNetHeader header = io::LoadVirtioNetHeader(form.header);
  if (header.gso_type != io::kGsoNone) {
    const std::optional<io::Segmentation> segmentation =
        io::Segmentation::Of(header, form.frame(), form.length);
    if (segmentation) {
      QueueSegments(port, form, *segmentation);
    } else {
      Drop(port, DropReason::kEgressNotSegmentable, form);
    }
    return;
  }
  io::CompleteChecksum(header, form.frame(), form.length);
  io::StoreVirtioNetHeader({}, form.header);
  Write(port, form);
}

void TransmitPath::QueueSegments(PortIndex port, const FrameForm& form,
                                 const io::Segmentation& segmentation) {
  const uint32_t segments = segmentation.count();
  counters_[port].queued_copies.Add(segments - 1);
  const uint32_t size_max = io::kVirtioNetHeaderSize + segmentation.length_max();
  FrameForm part;
  uint32_t room = 0;  // behind part.header, in its buffer
  for (uint32_t i = 0; i < segments; ++i) {
    if (part.header == nullptr || room < size_max) {
      if (part.buffer != io::BufferPool::kNoBuffer) pool_->Release(part.buffer);
      part.buffer = TakeReserveBuffer();
      if (part.buffer == io::BufferPool::kNoBuffer) {
        for (; i < segments; ++i) Drop(port, DropReason::kEgressNoBuffer, form);
        return;
      }
      part.header = pool_->header(part.buffer);
      room = io::kReadSize;
    }
    std::memset(part.header, 0, io::kVirtioNetHeaderSize);
    part.length = segmentation.Make(i, part.frame());
    Write(port, part);
    const uint32_t used = io::kVirtioNetHeaderSize + part.length;
    part.header += used;
    room -= used;
  }
  pool_->Release(part.buffer);
}

void TransmitPath::Write(PortIndex port, const FrameForm& form) {
  if (transmitter_.full()) Submit();
  while (transmitter_.full()) AdvanceAndCollect();
  transmitter_.Queue(port, form.buffer, form.header, form.length);
}

void TransmitPath::Drop(PortIndex port, DropReason reason, const FrameForm& form) {
  counters_[port].Drop(reason);
  if (capture_->on()) capture_->Record(port, CaptureDirection::kTransmit, reason, form.frame(), form.length);
}

// --- completion ---

void TransmitPath::Submit() {
  if (transmitter_.outstanding() == 0) return;
  ring_->Submit();
  Collect();
}

// Failed writes complete as deferred work, and with it come reads.
void TransmitPath::AdvanceAndCollect() {
  ring_->Advance();
  Collect();
}

void TransmitPath::Collect() {
  ring_->Collect([this](const io::Completion& completion) {
    if (completion.token.operation == io::Operation::kWrite) {
      CountWrite(completion);
    } else {
      arrivals_->push_back(completion);
    }
  });
}

void TransmitPath::CountWrite(const io::Completion& completion) {
  const PortIndex port = completion.token.slot;
  bridge::PortCounters& counters = counters_[port];
  const io::Written written = transmitter_.OnWritten(completion);
  std::optional<DropReason> dropped;
  if (completion.result < 0) {
    dropped = DropReasonOf(-completion.result);
    counters.Drop(*dropped);
  } else {
    counters.transmit_frames.Add();
    counters.transmit_bytes.Add(written.length);
  }
  if (capture_->on()) {
    capture_->Record(port, CaptureDirection::kTransmit, dropped, written.header + io::kVirtioNetHeaderSize,
                     written.length);
  }
}

}  // namespace ringswitch
