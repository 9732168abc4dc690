package check

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/goleak"

	"kaas.dev/kaas/internal/substrate"
	"kaas.dev/kaas/metalog"
	"kaas.dev/kaas/projections"
	"kaas.dev/kaas/server"
)

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "check")
	if err != nil {
		panic(err)
	}
	sampleDir = dir
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		os.RemoveAll(dir)
		os.Exit(code)
	}))
}

// startNode runs a whole broker on dir and waits until it serves all that is assigned to it.
func startNode(t testing.TB, dir string, id int, sets ...string) *server.Node {
	t.Helper()
	cfg, err := server.LoadConfig(server.Sources{Sets: append([]string{"listeners=PLAINTEXT://127.0.0.1:0", "http.listeners=127.0.0.1:0",
		"log.dirs=" + dir, fmt.Sprintf("node.id=%d", id), "offsets.topic.num.partitions=3", "transaction.state.log.num.partitions=2"}, sets...)})
	must(t, err)
	n, err := server.Open(context.Background(), cfg, slog.New(slog.NewTextHandler(io.Discard, nil)))
	must(t, err)
	await(t, "the broker is ready", func() bool {
		r, err := http.Get("http://" + n.HTTPAddr() + "/readyz")
		if err != nil {
			return false
		}
		r.Body.Close()
		return r.StatusCode == http.StatusOK
	})
	http.DefaultClient.CloseIdleConnections()
	return n
}

func stopNode(t testing.TB, n *server.Node) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	must(t, n.Retire(ctx))
	must(t, n.Stop(ctx))
}

func await(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within a minute: %s", what)
		}
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func volume(t testing.TB, dir string) *substrate.Volume {
	t.Helper()
	d, err := substrate.OpenDir(dir)
	must(t, err)
	v, err := substrate.ReadVolume(d)
	must(t, err)
	return v
}

func cluster(t testing.TB, v *substrate.Volume) *projections.Cluster {
	t.Helper()
	s, _, err := metalog.ReadState(t.Context(), v, clusterStream(v), projections.ClusterSchema())
	must(t, err)
	return s.State
}

var (
	sampleDir  string
	sampleOnce sync.Once
	sampled    bool
)

// sample is a volume on which two brokers had topics of several segments, a group with
// offsets, a transaction that was aborted and one that was committed, a takeover and a
// handover, and whose newest topic was made last. It is as a broker left it that was stopped by
// nobody.
func sample(t testing.TB) string {
	t.Helper()
	sampleOnce.Do(func() {
		makeSample(t, filepath.Join(sampleDir, "live"), filepath.Join(sampleDir, "sample"))
		sampled = true
	})
	if !sampled {
		t.Fatal("the sample could not be made")
	}
	return filepath.Join(sampleDir, "sample")
}

func makeSample(t testing.TB, dir, copied string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	one, two := startNode(t, dir, 1), startNode(t, dir, 2)
	cl, err := kgo.NewClient(kgo.SeedBrokers(one.Addr()), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerBatchCompression(kgo.NoCompression()))
	must(t, err)
	defer cl.Close()
	adm := kadm.NewClient(cl)
	size, every := "1048576", "4096"
	for name, n := range map[string]int32{"orders": 3, "payments": 1} {
		_, err := adm.CreateTopic(ctx, n, 1, map[string]*string{"segment.bytes": &size, "index.interval.bytes": &every}, name)
		must(t, err)
	}
	fill(t, ctx, cl)
	transactions(t, ctx, one.Addr())
	fill(t, ctx, cl)
	commitOffset(t, ctx, adm, 5)
	// A takeover, as of a broker that stood still: its session is sealed under it.
	v := volume(t, dir)
	b, _ := cluster(t, v).Broker(2)
	must(t, v.Seal(ctx, b.Session))
	await(t, "the broker has another session, and leads again", func() bool {
		view := cluster(t, v)
		now, _ := view.Broker(2)
		return now.Session != b.Session && !now.Fenced && slices.ContainsFunc(view.Topic("orders").Partitions, func(p projections.Partition) bool {
			return p.Leader == 2 && p.Epoch > 1
		})
	})
	fill(t, ctx, cl)
	commitOffset(t, ctx, adm, 9)
	stopNode(t, two) // hands over
	fill(t, ctx, cl)
	commitOffset(t, ctx, adm, 12)
	_, err = adm.CreateTopic(ctx, 1, 1, nil, "newest")
	must(t, err)
	await(t, "the volume is copied as it was at one moment", func() bool {
		must(t, os.RemoveAll(copied))
		return os.CopyFS(copied, os.DirFS(dir)) == nil && wholeSessions(t, copied)
	})
	stopNode(t, one)
}

// wholeSessions is whether every session has its token, which brokers rename all the time.
func wholeSessions(t testing.TB, dir string) bool {
	t.Helper()
	all, err := filepath.Glob(filepath.Join(dir, substrate.SessionsDir, "*"))
	must(t, err)
	for _, session := range all {
		names, err := os.ReadDir(session)
		must(t, err)
		if tokens := slices.DeleteFunc(names, func(e os.DirEntry) bool { return e.IsDir() }); len(tokens) != 1 {
			return false
		}
	}
	return true
}

// fill produces to every partition some segments' worth of records.
func fill(t testing.TB, ctx context.Context, cl *kgo.Client) {
	t.Helper()
	for i := range 30 {
		for p := range int32(4) {
			r := &kgo.Record{Topic: "orders", Partition: p, Value: []byte(strings.Repeat(fmt.Sprintf("%02d.", i), 15_000))}
			if p == 3 {
				r.Topic, r.Partition = "payments", 0
			}
			if err := cl.ProduceSync(ctx, r).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func transactions(t testing.TB, ctx context.Context, addr string) {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.TransactionalID("pay"), kgo.DefaultProduceTopic("payments"))
	must(t, err)
	defer cl.Close()
	for _, end := range []kgo.TransactionEndTry{kgo.TryAbort, kgo.TryCommit, kgo.TryAbort} {
		must(t, cl.BeginTransaction())
		must(t, cl.ProduceSync(ctx, kgo.StringRecord("in a transaction")).FirstErr())
		must(t, cl.EndTransaction(ctx, end))
	}
}

func commitOffset(t testing.TB, ctx context.Context, adm *kadm.Client, at int64) {
	t.Helper()
	for _, group := range []string{"billing", "mail", "audit", "search"} { // of several shards
		var os kadm.Offsets
		os.AddOffset("orders", 0, at, -1)
		await(t, "offsets are committed", func() bool {
			rs, err := adm.CommitOffsets(ctx, group, os)
			if err == nil {
				err = rs.Error()
			}
			if err != nil && !kerr.IsRetriable(err) {
				t.Fatal(err)
			}
			return err == nil
		})
	}
}

// clone is a copy of the sample that may be damaged: its files are links, so they are
// replaced and never written to.
func clone(t testing.TB, dir string) string {
	t.Helper()
	to := t.TempDir()
	must(t, filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, p)
		if err != nil || rel == "." {
			return err
		}
		if d.IsDir() {
			return os.Mkdir(filepath.Join(to, rel), 0o755)
		}
		return os.Link(p, filepath.Join(to, rel))
	}))
	return to
}

// tree tells everything of a directory that a check could have changed.
func tree(t testing.TB, dir string) string {
	t.Helper()
	var out strings.Builder
	must(t, filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		i, err := d.Info()
		if err == nil {
			fmt.Fprintln(&out, p, i.Mode(), i.Size(), i.ModTime().UnixNano())
		}
		return err
	}))
	return out.String()
}
