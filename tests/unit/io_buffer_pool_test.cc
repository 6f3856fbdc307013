// The pool against a real ring with a pipe: no device, no rights.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <set>

#include "dataplane/file.h"
#include "dataplane/io/buffer_pool.h"

namespace ringswitch::io {
namespace {

class BufferPoolTest : public testing::Test {
 protected:
  BufferPoolTest() : ring_(*Ring::Create(16)), pool_(*BufferPool::Create(16, ring_.get())) {
    int ends[2];
    EXPECT_EQ(::pipe2(ends, O_NONBLOCK | O_CLOEXEC), 0);
    read_end_ = File(ends[0]);
    write_end_ = File(ends[1]);
    EXPECT_TRUE(ring_->SetFile(3, read_end_.fd()).ok());
  }
  ~BufferPoolTest() override { ring_.reset(); }

  // One byte through the pipe into a buffer.
  Completion Read() {
    EXPECT_EQ(::write(write_end_.fd(), "x", 1), 1);
    ring_->QueueRead(3, BufferPool::kGroup, 1, false, {Operation::kRead, 7, 3, 0});
    ring_->Advance();
    Completion got;
    int count = 0;
    ring_->Collect([&](const Completion& completion) {
      got = completion;
      ++count;
    });
    EXPECT_EQ(count, 1);
    return got;
  }

  std::unique_ptr<Ring> ring_;
  std::unique_ptr<BufferPool> pool_;
  File read_end_, write_end_;
};

TEST_F(BufferPoolTest, ReadFillsABufferOfThePool) {
  Completion read = Read();
  EXPECT_EQ(read.result, 1);
  EXPECT_EQ(read.token.operation, Operation::kRead);
  EXPECT_EQ(read.token.generation, 7);
  EXPECT_EQ(read.token.slot, 3);
  ASSERT_TRUE(read.has_buffer);
  EXPECT_EQ(*pool_->header(read.buffer), 'x');
}

TEST_F(BufferPoolTest, EmptyPoolSaysSoAndRecyclingFillsIt) {
  std::set<uint16_t> buffers;
  for (uint32_t i = 0; i < pool_->provided(); ++i) {
    Completion read = Read();
    ASSERT_TRUE(read.has_buffer);
    pool_->Take(read.buffer);
    buffers.insert(read.buffer);
  }
  EXPECT_EQ(buffers.size(), pool_->provided());
  EXPECT_EQ(pool_->held(), pool_->provided());
  EXPECT_EQ(Read().result, -ENOBUFS);
  for (uint16_t buffer : buffers) pool_->Release(buffer);
  EXPECT_EQ(pool_->held(), 0u);
  pool_->Recycle();
  EXPECT_TRUE(Read().has_buffer);
}

TEST_F(BufferPoolTest, BufferIsHeldUntilItsLastReferenceGoes) {
  const uint16_t buffer = pool_->TakeReserve();
  ASSERT_NE(buffer, BufferPool::kNoBuffer);
  pool_->AddReference(buffer);
  pool_->Release(buffer);
  EXPECT_EQ(pool_->held(), 1u);
  pool_->Release(buffer);
  EXPECT_EQ(pool_->held(), 0u);
}

TEST_F(BufferPoolTest, ReserveIsRefilledFirst) {
  std::set<uint16_t> reserve;
  for (uint16_t buffer = pool_->TakeReserve(); buffer != BufferPool::kNoBuffer;
       buffer = pool_->TakeReserve()) {
    reserve.insert(buffer);
  }
  EXPECT_EQ(reserve.size(), pool_->size() - pool_->provided());
  for (uint16_t buffer : reserve) pool_->Release(buffer);
  EXPECT_NE(pool_->TakeReserve(), BufferPool::kNoBuffer);
}

}  // namespace
}  // namespace ringswitch::io
