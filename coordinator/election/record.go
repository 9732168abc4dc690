package election

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	rl "k8s.io/client-go/tools/leaderelection/resourcelock"

	"kaas.dev/kaas/internal/substrate"
)

const dir = "election"

var kindRecord = substrate.Kind{'e', 'l', 'e', 'c'}

// unknown is the holder of a record that cannot be read. No identity is a question mark.
const unknown = "?"

// body is a record on the volume. An empty holder has released the lock.
type body struct {
	Holder      string    `msgpack:"holder"`
	Seconds     int       `msgpack:"seconds"` // lease duration
	Acquired    time.Time `msgpack:"acquired"`
	Renewed     time.Time `msgpack:"renewed"`
	Transitions int       `msgpack:"transitions"`
}

// found is a record that was met.
type found struct {
	number uint64 // from 1; 0 is none
	whole  bool   // its bytes are all there, and will stay as they are
	record rl.LeaderElectionRecord
}

// mark is what an observer compares: another number is a renewal, and so it is when the
// record turns out to be released, or the observer's own. That the bytes of somebody's
// record come after its name is none: a dead process's may come late.
func (f found) mark(identity string) []byte {
	m := recordName(f.number)
	switch f.record.HolderIdentity {
	case "":
		m += " free"
	case identity:
		m += " mine"
	}
	return []byte(m)
}

// recordName is a record's file name: twenty digits.
func recordName(n uint64) string { return fmt.Sprintf("%020d", n) }

func recordPath(n uint64) string { return dir + "/" + recordName(n) }

// parseRecordName is the strict inverse of recordName.
func parseRecordName(s string) (n uint64, ok bool) {
	n, err := strconv.ParseUint(s, 10, 64)
	return n, err == nil && n > 0 && recordName(n) == s
}

func encodeRecord(r rl.LeaderElectionRecord) ([]byte, error) {
	return substrate.EncodeFile(kindRecord, 0, body{
		Holder: r.HolderIdentity, Seconds: r.LeaseDurationSeconds, Transitions: r.LeaderTransitions,
		Acquired: r.AcquireTime.UTC(), Renewed: r.RenewTime.UTC(),
	})
}

// decodeRecord makes a found of a file's bytes. What does not decode, because it is not
// all there or of a newer format, is a record of an unknown holder: elections go on.
func decodeRecord(n uint64, b []byte) found {
	f := found{number: n}
	var d body
	if _, err := substrate.DecodeFile(recordPath(n), kindRecord, b, &d); err != nil {
		f.record.HolderIdentity = unknown
		return f
	}
	f.whole = true
	f.record = rl.LeaderElectionRecord{
		HolderIdentity: d.Holder, LeaseDurationSeconds: d.Seconds, LeaderTransitions: d.Transitions,
		AcquireTime: metav1.NewTime(d.Acquired), RenewTime: metav1.NewTime(d.Renewed),
	}
	return f
}

// numbers are the records of a listing, lowest first, as the listing is sorted.
func numbers(es []substrate.DirEntry) []uint64 {
	var ns []uint64
	for _, e := range es {
		if n, ok := parseRecordName(e.Name); ok && !e.Dir {
			ns = append(ns, n)
		}
	}
	return ns
}

func newest(ns []uint64) uint64 {
	if len(ns) == 0 {
		return 0
	}
	return ns[len(ns)-1]
}

// checkIdentity refuses what would be taken for nobody or for an unknown holder.
func checkIdentity(id string) error {
	if id == "" || id == unknown || strings.TrimSpace(id) != id {
		return fmt.Errorf("election identity %q: want the node.id", id)
	}
	return nil
}

var errNoLock = errors.New("election: no lock is given")
