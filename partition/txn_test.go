package partition

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"

	"kaas.dev/kaas/internal/substrate/nfssim"
)

// txnBatch makes a transactional batch.
func txnBatch(id int64, epoch int16, seq int32, values ...string) []byte {
	b := batch(idem(id, epoch, seq, values...))
	binary.BigEndian.PutUint16(b[21:], attrTransactional)
	return reseal(b)
}

// appendTxn appends a transactional batch as one that the coordinator vouches for.
func appendTxn(t tb, p *Partition, b []byte) int64 {
	t.Helper()
	g, _ := p.StartVerification(batch(b).producer(), batch(b).prodEpoch(), batch(b).sequence(), false)
	a, err := p.AppendTxn(context.Background(), b, g)
	must(a, err)(t)
	ok(t, a.Wait(context.Background()))
	return a.BaseOffset
}

func mark1(t tb, p *Partition, m Marker) int64 {
	t.Helper()
	a, err := p.WriteMarker(context.Background(), m)
	must(a, err)(t)
	ok(t, a.Wait(context.Background()))
	return a.BaseOffset
}

func simPartition(t *testing.T, cfg Config) *Partition {
	t.Helper()
	p := open(t, newSession(t, newVolume(t, nfssim.New(nfssim.Config{}).Server())), 1, cfg)
	abandon(t, p)
	return p
}

// A marker is byte for byte what Kafka writes.
func TestMarkerBytes(t *testing.T) {
	b := Marker{ProducerID: 7, ProducerEpoch: 3, Commit: true, CoordinatorEpoch: 9}.batch(1_700_000_000_000)
	b.place(5, 2)
	want := "0000000000000005" + "00000042" + "00000002" + "02" + fmt.Sprintf("%08x", b.sum()) + "0030" + "00000000" +
		"0000018bcfe56800" + "0000018bcfe56800" + "0000000000000007" + "0003" + "ffffffff" + "00000001" +
		"20" + "00" + "00" + "00" + "08" + "00000001" + "0c" + "000000000009" + "00"
	if got := fmt.Sprintf("%x", []byte(b)); got != want {
		t.Fatalf("got  %s\nwant %s", got, want)
	}
	m, ok := b.marker()
	if !ok || m != (Marker{ProducerID: 7, ProducerEpoch: 3, Commit: true, CoordinatorEpoch: 9}) {
		t.Fatalf("read back as %+v, %v", m, ok)
	}
	for _, other := range [][]byte{rec(0, "x"), txnBatch(1, 0, 0, "x"), b[:batchHeader]} {
		if len(other) == batchHeader {
			other = slices.Clone(other)
			binary.BigEndian.PutUint32(other[57:], 0)
		}
		if _, ok := batch(other).marker(); ok {
			t.Errorf("%x is taken for a marker", other)
		}
	}
}

// step is something that is done to a partition, and what comes of it.
type step struct {
	do     func(p *Partition) error
	code   *kerr.Error
	stable int64 // the last stable offset after it
}

func data(id int64, epoch int16, seq int32) func(*Partition) error {
	return func(p *Partition) error {
		g, _ := p.StartVerification(id, epoch, seq, false)
		a, err := p.AppendTxn(context.Background(), txnBatch(id, epoch, seq, "v"), g)
		if err == nil {
			err = a.Wait(context.Background())
		}
		return err
	}
}

func end(id int64, epoch int16, commit bool, coordinator int32, version int8) func(*Partition) error {
	return func(p *Partition) error {
		a, err := p.WriteMarker(context.Background(), Marker{id, epoch, commit, coordinator, version})
		if err == nil {
			err = a.Wait(context.Background())
		}
		return err
	}
}

func plain(b []byte) func(*Partition) error {
	return func(p *Partition) error {
		a, err := p.Append(context.Background(), slices.Clone(b))
		if err == nil {
			err = a.Wait(context.Background())
		}
		return err
	}
}

func fenceTo(id int64, epoch int16) func(*Partition) error {
	return func(p *Partition) error {
		cfg := *p.cfg()
		before := cfg.Fenced
		cfg.Fenced = func(producer int64) (int16, bool) {
			if producer == id || before == nil {
				return epoch, producer == id
			}
			return before(producer)
		}
		p.Reconfigure(cfg)
		return nil
	}
}

// What is taken and refused of transactions, and the last stable offset, each also with
// a takeover after every step.
func TestTransactionSteps(t *testing.T) {
	stale, unknown, gap, zombie := kerr.InvalidProducerEpoch, kerr.InvalidTxnState, kerr.OutOfOrderSequenceNumber, kerr.TransactionCoordinatorFenced
	cases := map[string][]step{
		"commit": {{data(1, 0, 0), nil, 0}, {data(1, 0, 1), nil, 0}, {end(1, 0, true, 0, 1), nil, 3}, {data(1, 0, 2), nil, 3}},
		"abort, epoch raised": {{data(1, 0, 0), nil, 0}, {end(1, 1, false, 0, 2), nil, 2}, {data(1, 0, 1), stale, 2}, {data(1, 1, 1), gap, 2},
			{data(1, 1, 0), nil, 2}, {data(1, 1, 1), nil, 2}, {end(1, 2, true, 0, 2), nil, 5}},
		"two at once":               {{data(1, 0, 0), nil, 0}, {data(2, 0, 0), nil, 0}, {end(1, 0, true, 0, 0), nil, 1}, {end(2, 0, false, 0, 0), nil, 4}},
		"the younger ends first":    {{data(1, 0, 0), nil, 0}, {data(2, 0, 0), nil, 0}, {end(2, 0, true, 0, 0), nil, 0}, {end(1, 0, false, 0, 0), nil, 4}},
		"plain records beside it":   {{plain(rec(0, "a")), nil, 1}, {data(1, 0, 0), nil, 1}, {plain(rec(0, "b")), nil, 1}, {end(1, 0, true, 0, 0), nil, 4}, {plain(rec(0, "c")), nil, 5}},
		"plain, of the producer":    {{data(1, 0, 0), nil, 0}, {plain(idem(1, 0, 1, "x")), unknown, 0}, {end(1, 0, true, 0, 0), nil, 2}, {plain(idem(1, 0, 1, "x")), nil, 3}},
		"nobody vouches":            {{plain(txnBatch(1, 0, 0, "x")), unknown, 0}, {data(1, 0, 0), nil, 0}, {plain(txnBatch(1, 0, 1, "x")), nil, 0}, {end(1, 0, true, 0, 0), nil, 3}, {plain(txnBatch(1, 0, 2, "x")), unknown, 3}},
		"sent again after the end":  {{data(1, 0, 0), nil, 0}, {end(1, 0, true, 0, 0), nil, 2}, {plain(txnBatch(1, 0, 0, "v")), nil, 2}},
		"stale before unknown":      {{data(1, 2, 0), nil, 0}, {end(1, 3, true, 0, 2), nil, 2}, {plain(txnBatch(1, 2, 1, "x")), stale, 2}, {plain(txnBatch(1, 3, 0, "x")), unknown, 2}},
		"marker again, same epoch":  {{data(1, 0, 0), nil, 0}, {end(1, 1, true, 0, 2), nil, 2}, {end(1, 1, true, 0, 2), nil, 3}, {end(1, 0, true, 0, 1), stale, 3}},
		"late marker, version 2":    {{data(1, 0, 0), nil, 0}, {end(1, 1, true, 0, 2), nil, 2}, {data(1, 1, 0), nil, 2}, {end(1, 1, false, 0, 2), stale, 2}, {end(1, 2, true, 0, 2), nil, 4}},
		"marker, of nothing":        {{end(1, 4, true, 7, 2), nil, 1}, {data(1, 3, 0), stale, 1}, {end(1, 5, true, 6, 2), zombie, 1}, {data(1, 4, 1), gap, 1}, {data(1, 4, 0), nil, 1}},
		"older coordinator":         {{data(1, 0, 0), nil, 0}, {end(1, 0, true, 5, 0), nil, 2}, {data(1, 0, 1), nil, 2}, {end(1, 0, true, 4, 0), zombie, 2}, {end(1, 0, true, 5, 0), nil, 4}},
		"fence":                     {{data(1, 0, 0), nil, 0}, {fenceTo(1, 1), nil, 0}, {end(1, 0, false, 0, 0), nil, 2}},
		"open, and the epoch rises": {{data(1, 0, 0), nil, 0}, {plain(txnBatch(1, 1, 0, "x")), unknown, 0}, {data(1, 1, 0), nil, 0}, {end(1, 1, false, 0, 0), nil, 3}},
	}
	for name, steps := range cases {
		t.Run(name, func(t *testing.T) {
			for _, between := range []string{"nothing", "clean stop", "crash", "crash with recovery points"} {
				v := newVolume(t, nfssim.New(nfssim.Config{}).Server())
				cfg, epoch := testConfig(), int32(1)
				cfg.SegmentBytes = 300
				if between == "crash with recovery points" {
					cfg.RecoveryPointBytes = 1
				}
				p := open(t, newSession(t, v), epoch, cfg)
				for i, s := range steps {
					err := s.do(p)
					if s.code != nil {
						wantCode(t, err, s.code)
					} else if err != nil {
						t.Fatalf("%s, step %d: %v", between, i, err)
					}
					if between != "nothing" {
						before := p.Producers()
						if between == "clean stop" {
							ok(t, p.Relinquish(context.Background()))
						} else {
							ok(t, p.Abandon(context.Background()))
						}
						epoch++
						p = open(t, newSession(t, v), epoch, cfg)
						if after := p.Producers(); !sameProducers(before, after) {
							t.Fatalf("%s, step %d: producers are %+v, were %+v", between, i, after, before)
						}
					}
					if _, hw, stable := p.Offsets(); stable != s.stable {
						t.Fatalf("%s, step %d: stable to %d of %d, want %d", between, i, stable, hw, s.stable)
					}
				}
				_ = p.Abandon(context.Background())
			}
		})
	}
}

// sameProducers leaves out when they were active: a takeover counts anew.
func sameProducers(a, b []ActiveProducer) bool {
	return slices.EqualFunc(a, b, func(a, b ActiveProducer) bool {
		a.LastTime = b.LastTime
		return a == b
	})
}

// A fence refuses older epochs of data, and no markers.
func TestFence(t *testing.T) {
	p := simPartition(t, testConfig())
	ok(t, data(1, 0, 0)(p))
	ok(t, fenceTo(1, 2)(p))
	ok(t, fenceTo(9, 1)(p))
	for _, b := range [][]byte{txnBatch(1, 0, 1, "x"), txnBatch(1, 0, 0, "v"), txnBatch(1, 1, 0, "x"), idem(9, 0, 0, "x")} {
		wantCode(t, plain(b)(p), kerr.InvalidProducerEpoch)
	}
	ok(t, end(1, 0, false, 0, 1)(p)) // what was decided before the fence
	ok(t, data(1, 2, 0)(p))
	ok(t, plain(idem(9, 1, 0, "x"))(p))
	ok(t, plain(idem(10, 0, 0, "x"))(p))
	if !p.HasOpenTransaction(1, 2) || p.HasOpenTransaction(1, 0) || p.HasOpenTransaction(9, 0) {
		t.Error("an open transaction is forgotten, or one is made up")
	}
}

// T-08: a marker that comes between the coordinator's word and the batch makes the word
// worthless, also when another transaction has been begun since.
func TestVerificationGuard(t *testing.T) {
	p := simPartition(t, testConfig())
	late := func(g Guard, epoch int16, seq int32) error {
		_, err := p.AppendTxn(context.Background(), txnBatch(1, epoch, seq, "late"), g)
		return err
	}
	g, needed := p.StartVerification(1, 0, 0, false)
	if !needed || g == 0 {
		t.Fatal("a transaction is open that nobody began")
	}
	ok(t, end(1, 0, false, 0, 1)(p))
	wantCode(t, late(g, 0, 0), kerr.InvalidTxnState)
	again, _ := p.StartVerification(1, 0, 0, false)
	wantCode(t, late(g, 0, 0), kerr.InvalidTxnState)
	ok(t, late(again, 0, 0))
	if _, needed := p.StartVerification(1, 0, 1, false); needed {
		t.Error("the transaction is open, and is to be verified")
	}
	ok(t, late(0, 0, 1))
	next, needed := p.StartVerification(1, 1, 0, true)
	if !needed {
		t.Error("another epoch is not to be verified")
	}
	ok(t, end(1, 1, true, 0, 2)(p))
	wantCode(t, late(again, 1, 0), kerr.InvalidTxnState)
	// That was the end of the transaction before, for which the coordinator had this one wait.
	ok(t, late(next, 1, 0))
	ok(t, end(1, 2, true, 0, 2)(p))
	broken, _ := p.StartVerification(1, 2, 0, true)
	ok(t, end(1, 3, false, 0, 2)(p))
	wantCode(t, late(broken, 2, 0), kerr.InvalidProducerEpoch)
}

// While an earlier batch waits for its verification, a later one does not go before it.
func TestVerificationKeepsOrder(t *testing.T) {
	const top = 1<<31 - 1
	for _, low := range []int32{0, 5, top} {
		p := simPartition(t, testConfig())
		g, _ := p.StartVerification(1, 0, low, false)
		next := (low + 1) & top
		_, _ = p.StartVerification(1, 0, next, false)
		_, err := p.AppendTxn(context.Background(), txnBatch(1, 0, next, "x"), g)
		wantCode(t, err, kerr.OutOfOrderSequenceNumber)
		for _, seq := range []int32{low, next} {
			a, err := p.AppendTxn(context.Background(), txnBatch(1, 0, seq, "x"), g)
			ok(t, err)
			ok(t, a.Wait(context.Background()))
		}
	}
	p := simPartition(t, testConfig())
	g, _ := p.StartVerification(1, 0, 3, true)
	_, err := p.AppendTxn(context.Background(), txnBatch(1, 0, 3, "x"), g)
	wantCode(t, err, kerr.OutOfOrderSequenceNumber) // who adds implicitly begins with 0
}
