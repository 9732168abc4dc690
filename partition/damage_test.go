package partition

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"kaas.dev/kaas/internal/substrate"
	"kaas.dev/kaas/metalog"
)

// TestDamagedTail: one flipped bit with whole batches behind it is told from a torn
// end. The log ends before it, the error names the byte, and the file stays.
func TestDamagedTail(t *testing.T) {
	v, id := crashed(t)
	name := logPath(t, v, id)
	whole := readFile(t, name)
	flip := len(rec(0, "a")) + batchHeader + 2 // in the second batch's records
	for n, damaged := range map[int]bool{flip: true, len(whole) - 2: false} {
		v := copyVolume(t, v)
		name := logPath(t, v, id)
		data := bytes.Clone(whole)
		data[n] ^= 1
		ok(t, os.WriteFile(name, data, 0o644))
		found := checkFiles(t, v, &Manifest{Segments: []Segment{{SegmentID: id, End: -1, Size: -1}}}, true)
		if len(found) != 1 || found[0].Fault != damaged || found[0].Kind != map[bool]string{true: KindTail, false: KindTorn}[damaged] {
			t.Fatalf("bit flipped at %d: checked as %v", n, found)
		}
		var log bytes.Buffer
		cfg := testConfig()
		cfg.Log = slog.New(slog.NewTextHandler(&log, nil))
		p := open(t, newSession(t, v), 2, cfg)
		ok(t, p.Relinquish(context.Background()))
		if told := strings.Contains(log.String(), "level=ERROR") && strings.Contains(log.String(), filepath.Base(name)); told != damaged {
			t.Errorf("bit flipped at %d: the log says %s", n, &log)
		}
		// What lies before the recovery point keeps the file in the log under its own name.
		kept, err := os.ReadFile(name)
		if err != nil {
			kept, _ = os.ReadFile(name + damagedExt)
		}
		if damaged && !bytes.Equal(kept, data) {
			t.Errorf("bit flipped at %d: the damaged file is gone", n)
		}
	}
}

// checkFiles checks the test's partition against a manifest of these segments.
func checkFiles(t *testing.T, v *substrate.Volume, m *Manifest, deep bool) []metalog.Finding {
	t.Helper()
	m.TopicID = testID
	c, err := CheckFiles(context.Background(), v, testID, 0, m, CheckOptions{Deep: deep, Claimed: 1})
	ok(t, err)
	return c.Findings
}

// TestCheckSegment finds damage at every byte: also at those before the checksum, by the
// order of offsets and the leader epochs.
func TestCheckSegment(t *testing.T) {
	v, id := crashed(t)
	name := logPath(t, v, id)
	whole := readFile(t, name)
	m := &Manifest{Segments: []Segment{{SegmentID: id, End: 6, Size: int64(len(whole))}}, Epochs: []EpochStart{{1, 0}}, Recovery: RecoveryPoint{Offset: 6}}
	if found := checkFiles(t, v, m, true); len(found) > 0 {
		t.Fatal(found)
	}
	for at := range whole {
		data := bytes.Clone(whole)
		data[at] ^= 0x20
		ok(t, os.WriteFile(name, data, 0o644))
		if found := checkFiles(t, v, m, true); len(found) != 1 || !found[0].Fault || found[0].File != path.Join(Dir(testID, 0), id.String()) {
			t.Fatalf("bit flipped at %d: %v", at, found)
		}
	}
}

// TestCheckReadsByPieces: a batch of any size is read a piece at a time.
func TestCheckReadsByPieces(t *testing.T) {
	v, id := crashed(t)
	name := logPath(t, v, id)
	big := rec(0, strings.Repeat("x", 5*pieceSize))
	batch(big).place(0, 1)
	ok(t, os.WriteFile(name, big, 0o644))
	m := &Manifest{Segments: []Segment{{SegmentID: id, End: 1, Size: int64(len(big))}}, Epochs: []EpochStart{{1, 0}}, Recovery: RecoveryPoint{Offset: 1}}
	if found := checkFiles(t, v, m, true); len(found) > 0 {
		t.Fatal(found)
	}
	for _, at := range []int{len(big) - 1, pieceSize, 4*pieceSize + 1, batchHeader} {
		big[at] ^= 1
		ok(t, os.WriteFile(name, big, 0o644))
		if found := checkFiles(t, v, m, true); len(found) != 1 || found[0].Kind != KindSegment {
			t.Fatalf("bit flipped at %d: %v", at, found)
		}
		big[at] ^= 1
	}
}
