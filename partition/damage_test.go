package partition

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"kaas.dev/kaas/internal/substrate"
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
		_, err := CheckSegment(v, Dir(testID, 0), Segment{SegmentID: id, End: -1, Size: -1}, RecoveryPoint{})
		var de *substrate.DamageError
		if errors.As(err, &de) != damaged {
			t.Fatalf("bit flipped at %d: checked as %v", n, err)
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

// TestCheckSegment finds damage at every byte that a checksum covers.
func TestCheckSegment(t *testing.T) {
	v, id := crashed(t)
	name := logPath(t, v, id)
	whole := readFile(t, name)
	s := Segment{SegmentID: id, End: 6, Size: int64(len(whole))}
	if _, err := CheckSegment(v, Dir(testID, 0), s, RecoveryPoint{}); err != nil {
		t.Fatal(err)
	}
	for at, start := 0, 0; at < len(whole); at++ {
		if at-start == int(batch(whole[start:]).size()) {
			start = at
		}
		if n := at - start; n < 8 || n >= 12 && n < 16 {
			continue // base offset and leader epoch lie outside of the checksum
		}
		data := bytes.Clone(whole)
		data[at] ^= 0x20
		ok(t, os.WriteFile(name, data, 0o644))
		var de *substrate.DamageError
		if _, err := CheckSegment(v, Dir(testID, 0), s, RecoveryPoint{}); !errors.As(err, &de) || de.File == "" {
			t.Fatalf("bit flipped at %d: %v", at, err)
		}
	}
}
