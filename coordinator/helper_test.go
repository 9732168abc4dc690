package coordinator

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/goleak"

	"kaas.dev/kaas/internal/substrate"
	"kaas.dev/kaas/partition"
	"kaas.dev/kaas/projections"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// faulty is a host's FS whose calls a test may refuse.
type faulty struct {
	*substrate.DirFS
	fault atomic.Pointer[func(op, name string) error]
}

func (f *faulty) set(fault func(op, name string) error) { f.fault.Store(&fault) }
func (f *faulty) heal()                                 { f.fault.Store(nil) }

func (f *faulty) ask(op, name string) error {
	if p := f.fault.Load(); p != nil {
		return (*p)(op, name)
	}
	return nil
}

func (f *faulty) Open(name string) (substrate.File, error) {
	if err := f.ask("open", name); err != nil {
		return nil, err
	}
	g, err := f.DirFS.Open(name)
	if err != nil {
		return nil, err
	}
	return &faultyFile{g, f, name}, nil
}

func (f *faulty) Glance(name string) (substrate.File, error) { return f.Open(name) }

func (f *faulty) CreateExclusive(name string) (substrate.File, error) {
	if err := f.ask("create", name); err != nil {
		return nil, err
	}
	g, err := f.DirFS.CreateExclusive(name)
	if err != nil {
		return nil, err
	}
	return &faultyFile{g, f, name}, nil
}

func (f *faulty) Mkdir(name string) error {
	if err := f.ask("mkdir", name); err != nil {
		return err
	}
	return f.DirFS.Mkdir(name)
}

func (f *faulty) Rename(from, to string) error {
	if err := f.ask("rename", to); err != nil {
		return err
	}
	return f.DirFS.Rename(from, to)
}

func (f *faulty) Remove(name string) error {
	if err := f.ask("remove", name); err != nil {
		return err
	}
	return f.DirFS.Remove(name)
}

func (f *faulty) List(name string) ([]substrate.DirEntry, error) {
	if err := f.ask("list", name); err != nil {
		return nil, err
	}
	return f.DirFS.List(name)
}

func (f *faulty) SyncDir(name string) error {
	if err := f.ask("syncdir", name); err != nil {
		return err
	}
	return f.DirFS.SyncDir(name)
}

// distant is a file system that no host watches, as those are that others write to.
type distant struct{ substrate.FS }

type faultyFile struct {
	substrate.File
	f    *faulty
	name string
}

func (g *faultyFile) WriteAt(b []byte, off int64) (int, error) {
	if err := g.f.ask("write", g.name); err != nil {
		return 0, err
	}
	return g.File.WriteAt(b, off)
}

func (g *faultyFile) Datasync() error {
	if err := g.f.ask("datasync", g.name); err != nil {
		return err
	}
	return g.File.Datasync()
}

func always(err error) func(string, string) error { return func(string, string) error { return err } }

// once refuses the first call that match accepts.
func once(err error, match func(op, name string) bool) func(string, string) error {
	var done atomic.Bool
	return func(op, name string) error {
		if match(op, name) && done.CompareAndSwap(false, true) {
			return err
		}
		return nil
	}
}

func mount(t *testing.T, dir string) (*substrate.Volume, *faulty) {
	t.Helper()
	d, err := substrate.OpenDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	f := &faulty{DirFS: d}
	v, err := substrate.OpenVolume(f, "")
	if err != nil {
		t.Fatal(err)
	}
	return v, f
}

func options(t *testing.T) Options {
	return Options{NodeID: 1, Peers: &network{}, LeaseDuration: time.Minute, RenewDeadline: 30 * time.Second, LeaseRetry: 100 * time.Millisecond, Host: "h", CheckInterval: 50 * time.Millisecond,
		Listeners: []projections.Listener{{Name: "PLAINTEXT", Host: "h", Port: 9092}},
		Log:       slog.New(slog.NewTextHandler(logTo{t}, &slog.HandlerOptions{Level: slog.LevelDebug}))}
}

// logTo shows the log of a test that fails; what comes after its end is dropped.
type logTo struct{ t *testing.T }

func (l logTo) Write(b []byte) (int, error) {
	if l.t.Context().Err() == nil {
		l.t.Log(strings.TrimSpace(string(b)))
	}
	return len(b), nil
}

func start(t *testing.T, v *substrate.Volume, opt Options) *Broker {
	t.Helper()
	b, err := Start(ctx(t, time.Minute), v, opt)
	if err != nil {
		t.Fatalf("start: %v", err)
	}
	t.Cleanup(func() { _ = b.Stop(ctx0(time.Minute)) })
	return b
}

func stop(t *testing.T, b *Broker) {
	t.Helper()
	if err := b.Stop(ctx0(time.Minute)); err != nil {
		t.Fatalf("stop: %v", err)
	}
}

// kill ends a broker as SIGKILL does: from one call to the next nothing of it
// reaches the volume any more.
func kill(t *testing.T, b *Broker, f *faulty) {
	t.Helper()
	f.set(always(syscall.EIO))
	c, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	_ = b.Stop(c)
}

func ctx(t *testing.T, d time.Duration) context.Context {
	c, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return c
}

func ctx0(d time.Duration) context.Context {
	c, cancel := context.WithTimeout(context.Background(), d)
	time.AfterFunc(d, cancel)
	return c
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never: %s", what)
		}
	}
}

// create asks again while there is no controller, as clients do: on a disk that stalls, an
// elected broker loses its lease.
func create(t *testing.T, b *Broker, name string, partitions int32) *projections.Topic {
	t.Helper()
	c := ctx(t, 5*time.Minute)
	for asked := 0; ; asked++ {
		topic, err := b.CreateTopic(c, TopicSpec{Name: name, Partitions: partitions}, false)
		switch {
		case err == nil:
			return topic
		case asked > 0 && errors.Is(err, kerr.TopicAlreadyExists):
			eventually(t, "topic "+name+" is served", func() bool { topic = b.View().Topic(name); return topic != nil && b.Ready() })
			return topic
		case !errors.Is(err, kerr.NotController) || c.Err() != nil:
			t.Fatalf("create %s: %v", name, err)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// mustPartition waits: a broker that starts opens its partitions beside what it is asked.
func mustPartition(t *testing.T, b *Broker, id projections.TopicID, i int32) *partition.Partition {
	t.Helper()
	var p *partition.Partition
	var err error
	eventually(t, fmt.Sprintf("partition %s/%d is served (%v)", id, i, err), func() bool {
		p, err = b.Partition(id, i)
		return err == nil
	})
	return p
}

// produce appends one record and returns its offset once it is committed.
func produce(c context.Context, b *Broker, id projections.TopicID, value string) (int64, error) {
	p, err := b.Partition(id, 0)
	if err != nil {
		return -1, err
	}
	a, err := p.Append(c, batch(value))
	if err != nil {
		return -1, err
	}
	if err := a.Wait(c); err != nil {
		return -1, err
	}
	return a.BaseOffset, nil
}

func batch(value string) []byte {
	rec := kmsg.Record{Value: []byte(value)}
	rec.Length = int32(len(rec.AppendTo(nil)) - 1) // less the one byte of a zero length
	rb := kmsg.RecordBatch{PartitionLeaderEpoch: -1, Magic: 2, FirstTimestamp: time.Now().UnixMilli(), MaxTimestamp: time.Now().UnixMilli(),
		ProducerID: -1, ProducerEpoch: -1, FirstSequence: -1, NumRecords: 1, Records: rec.AppendTo(nil)}
	b := rb.AppendTo(nil)
	binary.BigEndian.PutUint32(b[8:], uint32(len(b)-12))
	binary.BigEndian.PutUint32(b[17:], crc32.Checksum(b[21:], crc32.MakeTable(crc32.Castagnoli)))
	return b
}

// tree lists every path below dir with its size.
func tree(t *testing.T, dir string) map[string]int64 {
	t.Helper()
	out := map[string]int64{}
	err := filepath.WalkDir(dir, func(p string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		fi, err := e.Info()
		if err == nil && !e.IsDir() {
			out[p] = fi.Size()
		} else {
			out[p] = -1
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// topicDirs leaves out files: the probe's comes and goes.
func topicDirs(t *testing.T, dir string) []string {
	t.Helper()
	es, err := os.ReadDir(filepath.Join(dir, "topics"))
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range es {
		if e.IsDir() {
			out = append(out, e.Name())
		}
	}
	return out
}

func wantCode(t *testing.T, what string, err error, want *kerr.Error) {
	t.Helper()
	var k *kerr.Error
	if !errors.As(err, &k) || k.Code != want.Code {
		t.Fatalf("%s: %v, want %s", what, err, want.Message)
	}
}

// together runs f n times at once.
func together(n int, f func(i int)) {
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { f(i) })
	}
	wg.Wait()
}

func contains(records []byte, value string) bool { return strings.Contains(string(records), value) }
