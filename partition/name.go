package partition

import (
	"encoding/hex"
	"fmt"
	"path"
	"strconv"
	"strings"

	"kaas.dev/kaas/internal/substrate"
)

const (
	topicsDir = "topics"
	metaDir   = "meta"
	logExt    = ".log"
	indexExt  = ".index"
	txnExt    = ".txnindex"
)

// SegmentID names a segment: the offset of its first batch, the leader who made it
// and a count within that leader's epoch.
type SegmentID struct {
	Base  int64           `msgpack:"b" json:"base"`
	Epoch substrate.Epoch `msgpack:"e" json:"epoch"`
	Gen   uint32          `msgpack:"g" json:"gen"`
}

func (s SegmentID) stem() string { return fmt.Sprintf("%020d.%010d.%010d", s.Base, s.Epoch, s.Gen) }

// String is the name of the segment's file.
func (s SegmentID) String() string { return s.stem() + logExt }

// IndexName is the name of the segment's index file.
func (s SegmentID) IndexName() string { return s.stem() + indexExt }

// TxnIndexName is the name of the file that lists the segment's aborted transactions.
func (s SegmentID) TxnIndexName() string { return s.stem() + txnExt }

// ParseSegmentName is the strict inverse of [SegmentID.String].
func ParseSegmentName(name string) (SegmentID, error) {
	f := strings.Split(name, ".")
	if len(f) == 4 {
		base, err1 := strconv.ParseInt(f[0], 10, 64)
		epoch, err2 := strconv.ParseInt(f[1], 10, 32)
		gen, err3 := strconv.ParseUint(f[2], 10, 32)
		id := SegmentID{base, substrate.Epoch(epoch), uint32(gen)}
		if err1 == nil && err2 == nil && err3 == nil && base >= 0 && epoch >= 0 && id.String() == name {
			return id, nil
		}
	}
	return SegmentID{}, fmt.Errorf("%q is not a segment's name (BASE.EPOCH.GEN.log with 20, 10 and 10 digits)", name)
}

// TopicDir is the directory of a topic.
func TopicDir(id [16]byte) string { return path.Join(topicsDir, hex.EncodeToString(id[:])) }

// Dir is the directory of a partition.
func Dir(id [16]byte, index int32) string {
	return path.Join(TopicDir(id), strconv.Itoa(int(index)))
}

// ManifestStream is the stream of a partition's manifest.
func ManifestStream(id [16]byte, index int32) string { return path.Join(Dir(id, index), metaDir) }
