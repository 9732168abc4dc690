package nfssim

import (
	"errors"
	"time"
)

// Config says how the volume misbehaves. The zero value is NFS with Linux's
// cache times and no faults.
type Config struct {
	Seed int64
	// Local makes all hosts one machine with a local disk.
	Local bool
	// AttrTTL, DirTTL and NegTTL are how long a host trusts a file's attributes
	// and pages, a directory's names, and a name's absence. 0 means Linux's
	// acregmin and acdirmin: 3 s, 30 s, 30 s.
	AttrTTL, DirTTL, NegTTL time.Duration
	// Delegations lets the server grant read delegations at opens.
	Delegations bool
	// StaleList is the probability that List answers with an earlier listing.
	StaleList float64
	// StaleIn limits StaleList to some directories; nil means all. A follower's look
	// at a session must be fresh, as it is on real clients; a claimant's need not.
	StaleIn func(dir string) bool
	// LostReply is the probability that an applied Rename, Remove (ENOENT or EIO),
	// CreateExclusive or Mkdir (EEXIST or EIO) reports an error.
	LostReply float64
	// Late is the probability that a directory operation in flight when its
	// process dies reaches the server later, at any time.
	Late float64
	// RestartStale makes every handle ESTALE after ServerPowerLoss; otherwise
	// hosts recover their opens and send uncommitted data again.
	RestartStale bool
	// AtomicReplace leaves out the gap when a host renames over a file that it
	// holds open itself.
	AtomicReplace bool
	// OpTime is the mean fake time that a call takes; 0 means 1 ms.
	OpTime time.Duration
	// Pause is the probability, after a call, of a pause of up to a minute with
	// calls parked; 0 means 1/256, below 0 none.
	Pause float64
	// Fault is asked before each call, in Run's goroutine. A non-nil error is
	// returned instead. Without Applied a directory operation or read has no
	// effect; a write may have written a prefix; Datasync and Close lose, by coin
	// flip per write, what was not durable, and what remains visible stays
	// uncommitted for good although a second Datasync succeeds.
	Fault func(Op) error
	// TraceLen is how many operations Trace remembers; 0 means 200.
	TraceLen int
}

func (c *Config) setDefaults() {
	def := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	def(&c.AttrTTL, 3*time.Second)
	def(&c.DirTTL, 30*time.Second)
	def(&c.NegTTL, 30*time.Second)
	def(&c.OpTime, time.Millisecond)
	if c.Pause == 0 {
		c.Pause = 1.0 / 256
	}
	if c.TraceLen == 0 {
		c.TraceLen = 200
	}
}

// ErrKilled is the answer to every call of a process that is dead.
var ErrKilled = errors.New("nfssim: process is killed")

// ErrIdle means that for an hour of fake time no call could be released.
var ErrIdle = errors.New("nfssim: nothing to release for an hour")

// Kind is what a call does.
type Kind uint8

// The kinds of call. Size is answered by the client and not among them.
const (
	OpOpen Kind = iota
	OpCreate
	OpMkdir
	OpRename
	OpRemove
	OpList
	OpSyncDir
	OpStat
	OpRead
	OpWrite
	OpDatasync
	OpClose
)

var kindNames = [...]string{"open", "create", "mkdir", "rename", "remove", "list", "syncdir", "stat", "read", "write", "datasync", "close"}

func (k Kind) String() string { return kindNames[k] }

// namespace reports the operations that change a directory.
func (k Kind) namespace() bool { return k >= OpCreate && k <= OpRemove }

// Op is a call about to be performed.
type Op struct {
	N    int // how many calls were performed before it, plus one
	Host string
	Proc int // the process's number on its host, from 1
	Kind Kind
	Name string
	To   string // of a rename
	Off  int64  // of a read or write
	Len  int
}

// Applied is an error for Fault and FailNext: perform the call, then report err.
func Applied(err error) error { return appliedError{err} }

type appliedError struct{ err error }

func (e appliedError) Error() string { return e.err.Error() + " (applied)" }
func (e appliedError) Unwrap() error { return e.err }
