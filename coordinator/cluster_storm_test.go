package coordinator

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"kaas.dev/kaas/internal/substrate"
	"kaas.dev/kaas/partition"
)

// K-04: the first call for each partition that is to be taken over fails. It is tried again
// until it is done, and what was acknowledged is there.
func TestTakeoverIsTriedUntilDone(t *testing.T) {
	const partitions = 8
	for _, op := range []string{"open", "list", "rename", "create"} {
		for _, fail := range []syscall.Errno{syscall.ENOENT, syscall.EIO} {
			t.Run(fmt.Sprint(op, " ", fail), func(t *testing.T) {
				inFakeTime(t, func(t *testing.T, c *cluster) {
					a, b := c.join(1), c.join(2)
					topic := create(t, a.Broker, "a", partitions)
					c.settled(a, b)
					for i := range int32(partitions) {
						if off, err := put(ctx(t, time.Minute), topic.ID, i, "x", a, b); err != nil || off != 0 {
							t.Fatalf("partition %d: %d, %v", i, off, err)
						}
					}
					var mu sync.Mutex
					failed := map[string]bool{}
					b.f.set(func(did, name string) error {
						at := strings.Split(name, "/") // topics/<ID>/<partition>/…
						if did != op || len(at) < 3 || at[0] != topicsDir || at[1] != topic.ID.String() {
							return nil
						}
						mu.Lock()
						defer mu.Unlock()
						if failed[at[2]] {
							return nil
						}
						failed[at[2]] = true
						return fail
					})
					c.kill(a)
					c.settled(b)
					mu.Lock()
					n := len(failed)
					mu.Unlock()
					if n == 0 {
						t.Error("nothing has failed")
					}
					for i := range int32(partitions) {
						if off, err := put(ctx(t, time.Minute), topic.ID, i, "y", b); err != nil || off != 1 {
							t.Errorf("partition %d: %d, %v", i, off, err)
						}
					}
				})
			})
		}
	}
}

// K-04: a broker whose recoveries take longer than any timeout is not taken for dead, loses
// nothing of what it is to lead, and says that it is not ready.
func TestLongRecoveryKeepsTheBroker(t *testing.T) {
	inFakeTime(t, func(t *testing.T, c *cluster) {
		release := make(chan struct{})
		var once sync.Once
		free := func() { once.Do(func() { close(release) }) }
		t.Cleanup(free)
		quick := func(o *Options) { o.SessionTimeout, o.StallAfter = time.Second, time.Second }
		a := c.join(1, quick)
		topic := create(t, a.Broker, "a", 6)
		c.settled(a)
		b := c.join(2, quick, func(o *Options) {
			o.open = func(ctx context.Context, s *substrate.Session, id [16]byte, topic string, index, epoch int32, cfg partition.Config) (*partition.Partition, error) {
				select {
				case <-release:
				case <-ctx.Done():
					return nil, ctx.Err()
				}
				return partition.Open(ctx, s, id, topic, index, epoch, cfg)
			}
		})
		c.kill(a) // so that all that it led is to be recovered
		eventually(t, "it is to lead everything", func() bool { return leaders(b.Broker)[2] == 6 })
		was, _ := b.View().Broker(2)
		time.Sleep(4 * time.Second)
		now, _ := b.View().Broker(2)
		if now.Fenced || now.Epoch != was.Epoch || now.Session != was.Session || leaders(b.Broker)[2] != 6 {
			t.Errorf("it was removed while it recovered: %+v, was %+v, leads %v", now, was, leaders(b.Broker))
		}
		if b.NotReady() == nil {
			t.Error("it is ready")
		}
		free()
		c.settled(b)
		if _, err := put(ctx(t, time.Minute), topic.ID, 0, "x", b); err != nil {
			t.Error(err)
		}
	})
}

// K-04: all brokers end at once and come back one after the other. Nobody keeps what the
// first was given: all is even again soon after the last has come.
func TestAllRestartApart(t *testing.T) {
	inFakeTime(t, func(t *testing.T, c *cluster) {
		const apart, even = time.Second, 15 * time.Second
		var ms []*member
		for id := range int32(3) {
			ms = append(ms, c.join(id+1))
		}
		topic := create(t, ms[0].Broker, "a", 12)
		c.settled(ms...)
		for i := range int32(12) {
			if _, err := put(ctx(t, time.Minute), topic.ID, i, "x", ms...); err != nil {
				t.Fatal(err)
			}
		}
		for _, m := range ms {
			c.kill(m)
		}
		ms = nil
		for id := range int32(3) {
			if id > 0 {
				time.Sleep(apart)
			}
			ms = append(ms, c.join(id+1))
		}
		began := time.Now()
		c.settled(ms...)
		if took := time.Since(began); took > even {
			t.Errorf("even after %v", took)
		} else {
			t.Logf("even after %v", took)
		}
		for i := range int32(12) {
			if off, err := put(ctx(t, time.Minute), topic.ID, i, "y", ms...); err != nil || off != 1 {
				t.Errorf("partition %d: %d, %v", i, off, err)
			}
		}
		by := map[int32]bool{}
		for _, p := range ms[0].View().TopicByID(topic.ID).Partitions {
			by[p.Leader] = true
		}
		if len(by) != 3 {
			t.Errorf("led by %v", by)
		}
	})
}
