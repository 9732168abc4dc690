package coordinator

import (
	"fmt"
	"time"

	"kaas.dev/kaas/internal/substrate"
)

// probeVolume writes something to the volume now and then, for what a stalled volume
// answers from memory proves nothing. While a probe has not come back for StallAfter, this
// broker asks for its fence, and renews and takes no leadership.
func (b *Broker) probeVolume() {
	lane := substrate.NewLane(1)
	tick := time.NewTicker(max(b.opt.StallAfter/5, 100*time.Millisecond))
	defer tick.Stop()
	for {
		began := b.uptime()
		b.probing.Store(int64(began))
		stall := time.AfterFunc(b.opt.StallAfter, b.noteStall)
		_, err := substrate.Do(b.run, lane, func() (struct{}, error) { return struct{}{}, b.probe() }, nil)
		stall.Stop()
		if b.run.Err() != nil {
			return
		}
		b.probed.Store(int64(began))
		if b.stalled.Swap(false) {
			b.log.Info("the volume answers again", "err", err)
			b.report()
		}
		select {
		case <-tick.C:
		case <-b.run.Done():
			return
		}
	}
}

// uptime is the time since this broker began, by a clock that does not step.
func (b *Broker) uptime() time.Duration { return time.Since(b.began) }

func (b *Broker) noteStall() {
	if !b.stalled.Swap(true) {
		b.log.Error("the volume stalls: a probe write has not come back", "storage.stall.timeout.ms", b.opt.StallAfter.Milliseconds())
	}
	b.report()
}

// probe writes and removes a file of this process; what the volume says to it is an
// answer, whatever it is. Its name is temporary (rule 4), and nothing rests on the file.
func (b *Broker) probe() error {
	t := b.data.Load()
	if t == nil {
		return nil
	}
	tmp, err := b.v.WriteTemp(topicsDir, t.s.ID(), []byte("probe")) // leftovers are swept there
	if err != nil {
		return err
	}
	return b.v.Remove(tmp)
}

// volumeAnswers is nil unless the volume stalls.
func (b *Broker) volumeAnswers() error {
	if !b.stalled.Load() {
		return nil
	}
	since := (b.uptime() - time.Duration(b.probing.Load())).Round(time.Second)
	return fmt.Errorf("%s has not answered a write for %v", dirOf(b.v), since)
}
