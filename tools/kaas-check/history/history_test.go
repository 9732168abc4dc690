package history

import (
	"bytes"
	"path/filepath"
	"reflect"
	"slices"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"kaas.dev/kaas/internal/substrate"
)

func records(h *History, op *Op) (out []Record) {
	h.Each(op, func(r Record) { out = append(out, r) })
	return out
}

// What was read comes out as it was, however it is kept.
func TestReadsAreKept(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := NewRecorder(1, nil)
		proc, part := r.Proc("reader", Tail), r.Part(Part{Topic: "t"})
		record := rapid.Custom(func(t *rapid.T) Record {
			return Record{rapid.Int64Range(0, 6).Draw(t, "offset"), rapid.Uint64Range(0, 2).Draw(t, "value"), rapid.Int32Range(-1, 1).Draw(t, "epoch")}
		})
		want := rapid.SliceOfN(rapid.SliceOfN(record, 1, 5), 1, 10).Draw(t, "reads")
		for _, recs := range want {
			r.Read(proc, part, 0, slices.Clone(recs))
		}
		h := r.History()
		for i := range h.Ops {
			if got := records(h, &h.Ops[i]); !slices.Equal(got, want[i]) {
				t.Fatalf("read %d: %v, want %v", i, got, want[i])
			}
		}
		var buf bytes.Buffer
		if err := h.encode(&buf); err != nil {
			t.Fatal(err)
		}
		again, err := decode(&buf)
		if err != nil {
			t.Fatal(err)
		}
		for i := range again.Ops {
			if got := records(again, &again.Ops[i]); !slices.Equal(got, want[i]) {
				t.Fatalf("read %d from a file: %v, want %v", i, got, want[i])
			}
		}
	})
}

func TestAReadOfWhatIsKnownIsARange(t *testing.T) {
	r := NewRecorder(1, nil)
	part := r.Part(Part{Topic: "t"})
	recs := []Record{{3, 7, 1}, {4, 8, 1}}
	r.Read(1, part, 0, slices.Clone(recs))
	r.Read(2, part, 0, slices.Clone(recs))
	r.Read(3, part, 0, []Record{{3, 7, 1}, {4, 9, 1}})
	h := r.History()
	if h.Ops[0].Records != nil || h.Ops[1].Records != nil || h.Ops[2].Records == nil {
		t.Errorf("%+v", h.Ops)
	}
	if rec, ok := h.Seen(part, 4); !ok || rec.Value != 8 {
		t.Error(rec, ok)
	}
	if _, ok := h.Seen(part, 0); ok {
		t.Error("nothing was seen at 0")
	}
}

func TestEqualObservationsAreOne(t *testing.T) {
	r := NewRecorder(1, nil)
	part := r.Part(Part{Topic: "t"})
	for _, v := range []int64{5, 5, 5, 6, 5} {
		r.Observe(1, part, End, v, 1, r.Now())
		r.Observe(2, part, End, 5, 1, r.Now())
	}
	h := r.History()
	var got [][2]int64
	for _, op := range h.Ops {
		if op.Proc == 1 {
			got = append(got, [2]int64{op.Offset, int64(op.Count)})
			if op.Last[1] < op.Complete {
				t.Error("the last one ended before the first")
			}
		}
	}
	if want := [][2]int64{{5, 3}, {6, 1}, {5, 1}}; !reflect.DeepEqual(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestFile(t *testing.T) {
	r := NewRecorder(42, []string{"a plan"})
	proc, part := r.ProcOf(r.Group(Group{Name: "g", Topics: []string{"t"}, Session: 5}), "p", Idempotent), r.Part(Part{Topic: "t", Made: 2})
	var wg sync.WaitGroup
	for i := range int64(4) {
		wg.Go(func() {
			r.Add(Op{Kind: Produce, Outcome: OK, Proc: proc, Part: part, Value: Value(proc, i+1), Offset: i, Epoch: -1, Text: "x"})
		})
	}
	wg.Wait()
	h := r.History()
	d, err := substrate.OpenDir(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := h.Write(d, "h"); err != nil {
		t.Fatal(err)
	}
	got, err := Load(filepath.Join(d.Root(), "h"))
	if err != nil {
		t.Fatal(err)
	}
	if got.Seed != 42 || got.Plan[0] != "a plan" || !reflect.DeepEqual(got.Ops, h.Ops) || got.Parts[0] != h.Parts[0] || !slices.Equal(got.Procs, h.Procs) || !reflect.DeepEqual(got.Groups, h.Groups) {
		t.Errorf("%+v\nwant %+v", got, h)
	}
}

// A file that is none, or whose numbers lead nowhere, is refused and not followed.
func TestDamagedFilesAreRefused(t *testing.T) {
	if _, err := decode(bytes.NewReader([]byte("no history at all"))); err == nil {
		t.Error("nonsense is taken")
	}
	for name, h := range map[string]*History{
		"version":     {Version: 99},
		"process":     {Version: version, Ops: []Op{{Kind: Fault, Part: -1, Proc: 3}}},
		"partition":   {Version: version, Procs: make([]Proc, 1), Ops: []Op{{Kind: Produce, Part: 0}}},
		"range":       {Version: version, Procs: make([]Proc, 1), Parts: make([]Part, 1), Logs: make([][]Record, 1), Ops: []Op{{Kind: Read, Count: 3}}},
		"group":       {Version: version, Groups: make([]Group, 1), Procs: []Proc{{Group: 1}}},
		"transaction": {Version: version, Procs: make([]Proc, 1), Ops: []Op{{Kind: TxnEnd, Part: -1, Txn: -1}}},
		"field":       {Version: version, Procs: make([]Proc, 1), Parts: make([]Part, 1), Logs: make([][]Record, 1), Ops: []Op{{Kind: Observe, Field: 9}}},
	} {
		var buf bytes.Buffer
		if err := h.encode(&buf); err != nil {
			t.Fatal(err)
		}
		if _, err := decode(&buf); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
}

// A marker is told from what processes send, and tells whose it is.
func TestMarkers(t *testing.T) {
	for v, want := range map[uint64]string{
		Marker(4711, 300, true):      "the commit marker of producer 4711, epoch 300",
		Marker(0, 0, false):          "the abort marker of producer 0, epoch 0",
		Marker(1<<22-1, 1<<14, true): "the commit marker of producer 4194303, epoch 16384",
	} {
		if !IsMarker(v) || TellValue(v) != want {
			t.Errorf("%x: %v, %s, want %s", v, IsMarker(v), TellValue(v), want)
		}
	}
	for _, v := range []uint64{0, 1, Value(0, 7), Value(1, 1<<39+5), Value(1<<23, 1)} {
		if IsMarker(v) {
			t.Errorf("%x is taken for a marker", v)
		}
	}
}

// What belongs to a transaction names it.
func TestTransactionsAreTold(t *testing.T) {
	h := &History{Procs: []Proc{{Name: "p", TxnID: "id"}}, Parts: []Part{{Topic: "t"}}}
	for _, tc := range []struct {
		op   Op
		want string
	}{
		{Op{Kind: Produce, Outcome: OK, Txn: 3, Value: Value(1, 1), Offset: 5}, "p sent 1:1 to t/0 in transaction 3: acknowledged at offset 5"},
		{Op{Kind: Process, Outcome: OK, Txn: 3, Offset: 5, Count: 2}, "p processed t/0 from offset 5 to 6 in transaction 3"},
		{Op{Kind: Commit, Outcome: Unknown, Txn: 3, Offset: 7, Epoch: -1}, "p committed 7 of t/0 in transaction 3: unknown"},
		{Op{Kind: Init, Outcome: OK, Part: -1, Value: 9, Epoch: 2}, `p of transactional ID "id" is producer 9 with epoch 2`},
		{Op{Kind: TxnEnd, Outcome: Unknown, Part: -1, Txn: 3, Text: "lost"}, `p of transactional ID "id" ended transaction 3: perhaps committed, lost`},
	} {
		if got := h.Tell(&tc.op, -1); got != tc.want {
			t.Errorf("%q, want %q", got, tc.want)
		}
	}
}

func TestValues(t *testing.T) {
	v := Value(7, 1<<39+5)
	if ProcOf(v) != 7 || Count(v) != 1<<39+5 {
		t.Error(ProcOf(v), Count(v))
	}
}
