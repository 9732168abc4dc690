package election

import (
	"context"
	"errors"
	"io/fs"
	"sync"
	"syscall"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	rl "k8s.io/client-go/tools/leaderelection/resourcelock"

	"kaas.dev/kaas/internal/substrate"
)

const (
	keep       = 64 // records that stay, the newest among them
	keepFull   = 8  // while the volume has no room
	mostPruned = 8  // at a time, so that a renewal stays short
	hanging    = 4  // calls that may hang at once
)

// volumeLock is a lock of numbered records. Its methods are for one goroutine, as the
// library has it; calls that it has stopped waiting for may still end beside it.
type volumeLock struct {
	v        *substrate.Volume
	identity string
	lane     substrate.Lane
	tidy     substrate.Lane // of one removal
	base     uint64         // the number that the caller was last told of

	mu    sync.Mutex // guards what follows; never held during a call
	made  bool       // the directory is there
	known found      // the newest record that any call has met
}

// NewVolumeLock returns a lock on the volume for [Run]. The identity is the node.id in
// decimal. The volume is not touched before the lock is used.
func NewVolumeLock(v *substrate.Volume, identity string) rl.Interface {
	return &volumeLock{v: v, identity: identity, lane: substrate.NewLane(hanging), tidy: substrate.NewLane(1)}
}

// Get implements resourcelock.Interface: the newest record, by a fresh listing. A record
// of an unknown holder has no lease duration: the observer's own counts.
func (l *volumeLock) Get(ctx context.Context) (*rl.LeaderElectionRecord, []byte, error) {
	f, err := substrate.Do(ctx, l.lane, l.look, nil)
	if err != nil {
		return nil, nil, err
	}
	l.base = f.number
	if f.number == 0 {
		return nil, nil, apierrors.NewNotFound(schema.GroupResource{Resource: dir}, l.Describe())
	}
	r := f.record
	return &r, f.mark(l.identity), nil
}

// Create implements resourcelock.Interface.
func (l *volumeLock) Create(ctx context.Context, r rl.LeaderElectionRecord) error {
	return l.put(ctx, r)
}

// Update implements resourcelock.Interface. It conflicts if anything is newer than what
// the last Get returned or the last Update wrote.
func (l *volumeLock) Update(ctx context.Context, r rl.LeaderElectionRecord) error {
	return l.put(ctx, r)
}

// RecordEvent implements resourcelock.Interface.
func (*volumeLock) RecordEvent(string) {}

// Identity implements resourcelock.Interface.
func (l *volumeLock) Identity() string { return l.identity }

// Describe implements resourcelock.Interface.
func (*volumeLock) Describe() string { return dir + "/ on the volume" }

func (l *volumeLock) put(ctx context.Context, r rl.LeaderElectionRecord) error {
	data, err := encodeRecord(r)
	if err != nil {
		return err
	}
	n := l.base + 1
	_, err = substrate.Do(ctx, l.lane, func() (struct{}, error) { return struct{}{}, l.write(n, data) }, nil)
	if err == nil {
		l.base = n
	}
	return err
}

// look is one look at the newest record. A listing that is older than what was already
// met says nothing: the record met is unchanged, and goes on to age.
func (l *volumeLock) look() (found, error) {
	ns, err := l.list()
	if err != nil {
		return found{}, err
	}
	k := l.newestKnown()
	if n := newest(ns); n < k.number || n == k.number && (k.whole || n == 0) {
		return k, nil
	}
	f, err := l.readNewest(ns)
	if err != nil {
		return found{}, err
	}
	return l.learn(f), nil
}

// list lists the records, having made their directory: on NFS a host that asked for it
// too early would take it for absent for a while (a mkdir ends that).
func (l *volumeLock) list() ([]uint64, error) {
	if err := l.makeDir(); err != nil {
		return nil, err
	}
	es, err := l.v.ListFresh(dir)
	if err != nil {
		return nil, l.gone(err)
	}
	return numbers(es), nil
}

// makeDir makes the directory once: EEXIST is the end-state (rule 2). Nobody waits for
// its durability.
func (l *volumeLock) makeDir() error {
	l.mu.Lock()
	made := l.made
	l.mu.Unlock()
	if made {
		return nil
	}
	if err := l.v.Mkdir(dir); err != nil && !errors.Is(err, syscall.EEXIST) {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.made = true
	return nil
}

// gone has the directory made again at the next call if err says that it is not there.
func (l *volumeLock) gone(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.made = false
	}
	return err
}

func (l *volumeLock) newestKnown() found {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.known
}

// learn keeps f unless something newer is known, and returns what is.
func (l *volumeLock) learn(f found) found {
	l.mu.Lock()
	defer l.mu.Unlock()
	if f.number >= l.known.number {
		l.known = f
	}
	return l.known
}

// readNewest reads the newest of the listed records. Where its bytes are not there, and
// the newest of those that are is of this identity, this identity still holds the lock.
// No more are looked at than stay on a full volume, where each try leaves a torn one.
func (l *volumeLock) readNewest(ns []uint64) (found, error) {
	f, err := l.read(newest(ns))
	if err != nil || f.whole {
		return f, err
	}
	for i := len(ns) - 2; i >= max(0, len(ns)-1-keepFull); i-- {
		lower, err := l.read(ns[i])
		if err != nil {
			return found{}, err
		}
		if lower.whole {
			if lower.record.HolderIdentity == l.identity {
				f.record = lower.record
			}
			break
		}
	}
	return f, nil
}

// read opens a name that a listing has shown. One that was pruned since is as good as torn.
func (l *volumeLock) read(n uint64) (found, error) {
	b, err := l.v.ReadFile(recordPath(n))
	var damage *substrate.DamageError
	if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.As(err, &damage) {
		return found{}, err
	}
	return decodeRecord(n, b), nil
}

// write makes record n, unless somebody has, and is right only if nothing newer is
// there: whoever slept so long that n was made and pruned meanwhile sees that. After any
// other error the record may be there; the next look finds it.
//
// There is no sync of file or directory. A host that crashes takes its unwritten record
// along; what is left of it has an unknown holder, and expires as its own would have.
// On NFS the close has sent the bytes to where other hosts see them.
func (l *volumeLock) write(n uint64, data []byte) error {
	if err := l.makeDir(); err != nil {
		return err
	}
	if err := l.create(n, data); err != nil {
		if substrate.IsFull(err) {
			l.makeRoom()
		}
		return err
	}
	ns, err := l.list()
	if err != nil {
		return err
	}
	if newest(ns) > n {
		return conflict(n)
	}
	l.learn(decodeRecord(n, data))
	l.pruneAside(ns)
	return nil
}

func (l *volumeLock) create(n uint64, data []byte) error {
	f, err := l.v.CreateExclusive(recordPath(n))
	if errors.Is(err, syscall.EEXIST) {
		return conflict(n)
	}
	if err != nil {
		return l.gone(err)
	}
	_, err = f.WriteAt(data, 0)
	return errors.Join(err, f.Close())
}

// makeRoom gives up old records early: on a full volume they are the room for new ones.
func (l *volumeLock) makeRoom() {
	if ns, err := l.list(); err == nil {
		l.prune(ns, keepFull)
	}
}

// pruneAside is prune beside the renewal, which is not to wait for it: where the server
// has promised a host to tell it before a record goes, a removal hangs while that host
// stands still. One that hangs is enough.
func (l *volumeLock) pruneAside(ns []uint64) {
	if len(ns) <= keep {
		return
	}
	select {
	case l.tidy <- struct{}{}:
		go func() { // ends with its calls, like others that nobody waits for any more
			l.prune(ns, keep)
			<-l.tidy
		}()
	default:
	}
}

// prune removes records that are far behind. What fails is done by a later writer (rule
// 2); who is about to read one of them finds that it is gone, and looks again.
func (l *volumeLock) prune(ns []uint64, keep int) {
	old := ns[:max(0, len(ns)-keep)]
	for _, n := range old[:min(len(old), mostPruned)] {
		_ = l.v.Remove(recordPath(n))
	}
}

func conflict(n uint64) error {
	return apierrors.NewConflict(schema.GroupResource{Resource: dir}, recordName(n), errors.New("another record is newer"))
}
