package coordinator

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"kaas.dev/kaas/internal/substrate"
)

// space watches the room on the volume. While there is little, or the volume has said
// that there is none, Append is refused, so that records leave room for what frees some:
// deletion, retention, claims, metadata. A ballast file stands in for that room where
// others fill the volume, or where a quota says nothing until it says no.
type space struct {
	refusal atomic.Pointer[error] // why Append is refused; read by every one
	full    chan struct{}         // the volume has said that it is full
	again   chan struct{}         // what was taken since the last look may be too much
	lane    substrate.Lane
	// left is what may still be taken before the next look; where free space is not
	// known, as much as there are numbers.
	left atomic.Int64
	// topicsLeft is the same for topics and partitions that are made. They may go on
	// while records are refused, but leave to what frees some the floor of those there are.
	topicsLeft atomic.Int64
	making     atomic.Int64 // partitions that are made and not in the view yet
	// The rest belongs to the goroutine that watches.
	ballast  atomic.Bool   // the file is there, whole; a term that begins may drop it
	proven   bool          // since the volume last said that it is full, it took what it was given
	saidFull bool          // proven was not so at the last look
	silent   bool          // it was said that the file system tells nothing
	probe    time.Time     // when to try next whether it takes something
	pause    time.Duration // before the try after that
}

// reserve is what free space may fall to before the ballast is given up unasked, and how
// much more than the ballast must fit before the volume counts as having room again.
const reserve = 4 << 20

// floor is what new topics leave free: deletion, retention, claims and the next start
// need it. Each partition that is there adds partitionFloor: it may still have to be
// opened, which comes after it is made, and then closed, and claimed at the next start.
const (
	floor          = 2 << 20
	partitionFloor = 32 << 10
)

// partitionRoom is what a partition's directory, its manifest and its first claim take.
const partitionRoom = 64 << 10

func newSpace() *space {
	s := &space{full: make(chan struct{}, 1), again: make(chan struct{}, 1), lane: substrate.NewLane(1), proven: true}
	s.left.Store(math.MaxInt64)
	s.topicsLeft.Store(math.MaxInt64)
	return s
}

// room is nil if n bytes may be written, and counts them: between two looks no more is
// taken than there was. It touches nothing.
func (s *space) room(n int) error {
	if err := s.refusal.Load(); err != nil {
		return *err
	}
	if s.take(&s.left, int64(n)) {
		return nil
	}
	return fmt.Errorf("%w: %d bytes more would leave the volume less than storage.min.free.bytes", kerr.KafkaStorageError, n)
}

// roomForPartitions is nil if n partitions may be made; made is called when they are in
// the view, or are not made after all.
func (s *space) roomForPartitions(n int32) (made func(), err error) {
	if s.take(&s.topicsLeft, int64(n)*(partitionRoom+partitionFloor)) {
		s.making.Add(int64(n))
		return func() { s.making.Add(-int64(n)) }, nil
	}
	return nil, fmt.Errorf("%w: the volume has no room for %d more partitions", kerr.KafkaStorageError, n)
}

// take counts n, or has the room looked at again.
func (s *space) take(left *atomic.Int64, n int64) bool {
	if left.Add(-n) >= 0 {
		return true
	}
	left.Add(n)
	select {
	case s.again <- struct{}{}:
	default:
	}
	return false
}

// noteFull is told by whatever call the volume answers so. It waits for nothing.
func (s *space) noteFull() {
	select {
	case s.full <- struct{}{}:
	default:
	}
}

// listenForFull has the volume's own word for it reach us, if it is bounded by a pool.
func (b *Broker) listenForFull() {
	if p, ok := b.v.FS.(interface{ OnFull(func()) }); ok {
		p.OnFull(b.space.noteFull)
	}
}

// watchSpace looks at the room there is. A look that hangs is waited for: until the
// volume answers, what it said last holds.
func (b *Broker) watchSpace() {
	tick := time.NewTicker(b.opt.SpaceInterval)
	defer tick.Stop()
	look := b.findBallast
	for {
		if _, err := substrate.Do(b.run, b.space.lane, func() (struct{}, error) { look(); return struct{}{}, nil }, nil); err != nil {
			return
		}
		look = b.lookAtSpace
		select {
		case <-b.run.Done():
			return
		case <-b.space.full:
			look = b.lookAtFull
		case <-b.space.again:
		case <-tick.C:
		}
	}
}

// lookAtFull is what follows from the volume's word that it is full.
func (b *Broker) lookAtFull() {
	s := b.space
	if s.proven {
		s.proven, s.pause = false, b.opt.SpaceInterval
		s.probe = time.Now().Add(s.pause)
	}
	b.lookAtSpace()
}

func (b *Broker) lookAtSpace() {
	s := b.space
	free, err := substrate.Free(b.v.FS)
	known := err == nil
	if !known && !s.silent {
		s.silent = true
		b.log.Info("free space is not known: records are refused when the volume says that it is full", "err", err)
	}
	if s.ballast.Load() && (!s.proven || known && free < reserve) {
		s.proven = false
		b.refuse("the volume is full") // first: records are not to take the ballast's room
		b.dropBallast()
		b.log.Warn("ballast is given up: the volume is full", "bytes", b.opt.Ballast)
	}
	enough := b.opt.MinFree
	if b.opt.Ballast > 0 {
		enough = max(enough, reserve)
	}
	if s.refusal.Load() != nil {
		enough += enough / 8 // it opens a little later than it shuts
	}
	low := known && free < enough
	if fits := !known || free >= enough+b.opt.Ballast+reserve; fits && !low && !time.Now().Before(s.probe) {
		b.prove()
	}
	s.allow(free, enough, b.floorNow(), known)
	switch {
	case !s.proven:
		b.refuse("the volume is full")
	case low:
		b.refuse(fmt.Sprintf("%d bytes are free on the volume, less than %d (storage.min.free.bytes)", free, enough))
	case s.refusal.Swap(nil) != nil:
		b.log.Info("records are taken again: the volume has room", "free", free)
	}
}

// floorNow is what new topics leave free now.
func (b *Broker) floorNow() int64 {
	n := b.space.making.Load() // first: what leaves it meanwhile is counted twice, not never
	for _, t := range b.View().Topics() {
		n += int64(len(t.Partitions))
	}
	return floor + n*partitionFloor
}

// allow says what may be taken until the next look. Once the volume has said that it is
// full, new topics have floor among them, until it takes something again.
func (s *space) allow(free, enough, keep int64, known bool) {
	left, topics := int64(math.MaxInt64), int64(math.MaxInt64)
	if known {
		left, topics = max(free-enough, 0), max(free-keep, 0)
	}
	s.left.Store(left)
	switch was := s.saidFull; {
	case s.proven:
		s.saidFull = false
	case was:
		topics = min(topics, s.topicsLeft.Load())
	default:
		s.saidFull = true
		topics = min(topics, floor)
	}
	s.topicsLeft.Store(topics)
}

func (b *Broker) refuse(why string) {
	err := fmt.Errorf("%w: %s", kerr.KafkaStorageError, why)
	if b.space.refusal.Swap(&err) == nil {
		b.log.Error("records are refused: "+why, "min_free", b.opt.MinFree)
	}
}

// prove makes the ballast where there is none, and where the volume has said that it is
// full tries whether that still holds: a quota tells in no other way.
func (b *Broker) prove() {
	s := b.space
	if s.proven && (s.ballast.Load() || b.opt.Ballast == 0) {
		return
	}
	err := b.makeBallast()
	if err == nil && !s.proven {
		err = b.writeAway()
	}
	if err == nil {
		s.proven = true
		s.ballast.Store(b.opt.Ballast > 0)
		return
	}
	b.dropBallast()
	s.pause = min(max(2*s.pause, b.opt.SpaceInterval), 10*b.opt.SpaceInterval)
	s.probe = time.Now().Add(s.pause)
	b.log.Debug("the volume is tried for room in vain", "again_in", s.pause, "err", err)
	select {
	case <-s.full: // that was us
	default:
	}
}

// ballastName is a name that anybody may remove at any time.
func (b *Broker) ballastName() string {
	return substrate.DeletedPrefix + "ballast~" + strconv.Itoa(int(b.opt.NodeID))
}

// findBallast takes over what an earlier process left; one that is not whole goes.
func (b *Broker) findBallast() {
	switch n := b.ballastSize(); {
	case n == b.opt.Ballast && n > 0:
		b.space.ballast.Store(true)
	case n >= 0:
		b.dropBallast()
	}
	b.lookAtSpace()
}

func (b *Broker) makeBallast() error {
	if b.opt.Ballast == 0 || b.space.ballast.Load() {
		return nil
	}
	return fill(b.v, b.ballastName(), b.opt.Ballast)
}

// writeAway takes some room and gives it back.
func (b *Broker) writeAway() error {
	tmp := b.v.TempName(topicsDir, b.dataSession())
	err := fill(b.v, tmp, reserve)
	if rerr := b.v.Remove(tmp); err == nil && rerr != nil && !errors.Is(rerr, fs.ErrNotExist) {
		err = rerr
	}
	return err
}

// fill makes a file of n bytes, durably.
func fill(v *substrate.Volume, name string, n int64) error {
	f, err := v.CreateExclusive(name)
	if err != nil {
		return err
	}
	if err = substrate.Allocate(f, n); err == nil {
		err = f.Datasync()
	}
	return errors.Join(err, f.Close())
}

// ballastSize is the file's size, -1 if there is none.
func (b *Broker) ballastSize() int64 {
	f, err := b.v.Open(b.ballastName())
	if err != nil {
		return -1
	}
	n, err := f.Size()
	if f.Close() != nil || err != nil {
		return 0
	}
	return n
}

func (b *Broker) dropBallast() {
	err := b.v.Remove(b.ballastName())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		b.log.Warn("ballast cannot be removed", "err", err)
	}
	b.space.ballast.Store(false)
}

// makeRoom gives the ballast up before a start that would find no room.
func (b *Broker) makeRoom() {
	if free, err := substrate.Free(b.v.FS); err == nil && free < reserve {
		b.dropBallast()
	}
}

// withRoom runs a step of the start, and once more without the ballast if there is no
// room for it. A volume that is full all the same ends this try: see waitForRoom.
func (b *Broker) withRoom(step func() error) error {
	err := step()
	if err == nil || !substrate.IsFull(err) || b.ballastSize() < 0 {
		return err
	}
	b.dropBallast()
	b.log.Warn("ballast is given up: the volume is full at the start", "err", err)
	return step()
}
