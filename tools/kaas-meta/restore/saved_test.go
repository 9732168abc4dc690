package restore

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"kaas.dev/kaas/internal/substrate"
	"kaas.dev/kaas/metalog"
	"kaas.dev/kaas/projections"
	"kaas.dev/kaas/tools/kaas-meta/simlab"
)

// newVolume is a volume with a cluster stream.
func newVolume(t *testing.T) (*substrate.Volume, string) {
	t.Helper()
	fs, err := substrate.OpenDir(t.TempDir())
	must(t, err)
	v, err := substrate.OpenVolume(fs, simlab.Volume)
	must(t, err)
	must(t, errors.Join(v.EnsureDir("meta"), v.EnsureDir(v.MetaDir())))
	stream := v.MetaDir() + "/cluster"
	must(t, metalog.Ensure(v, stream, projections.ClusterSchema(), "begun", simNow()))
	return v, stream
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

type clusterWriter = metalog.Writer[*projections.Cluster]

func claimCluster(t *testing.T, v *substrate.Volume, stream string, e substrate.Epoch) *clusterWriter {
	t.Helper()
	s, err := v.OpenSession(substrate.Identity{Role: substrate.RoleController, NodeID: int32(e)})
	must(t, err)
	w, err := metalog.Claim(context.Background(), s, stream, e, projections.ClusterSchema(), metalog.Options{Node: int32(e), Now: simNow})
	must(t, err)
	return w
}

func publish(w *clusterWriter, fs ...projections.Fact) error {
	_, err := w.Publish(context.Background(), "test", func(*projections.Cluster) ([]metalog.Event, error) { return projections.NewEvents(fs...) })
	return err
}

// What an owner wrote after its successor had looked never counted, and is not restored.
func TestTakeRefusesWhatNeverCounted(t *testing.T) {
	v, stream := newVolume(t)
	first := claimCluster(t, v, stream, 1)
	must(t, publish(first, &projections.ProducerIDsAllocated{First: 0, Count: 10}))
	second := claimCluster(t, v, stream, 2)
	must(t, publish(second, &projections.ProducerIDsAllocated{First: 10, Count: 10}))
	if err := publish(first, &projections.ProducerIDsAllocated{First: 10, Count: 500}); !errors.Is(err, substrate.ErrFenced) {
		t.Fatalf("the first owner published: %v", err)
	}
	ctx := context.Background()
	for at, want := range map[string]string{"1-2": "never counted", "3-1": "never counted", "1-1": "", "2-1": "", "0-1": ""} {
		p, err := substrate.ParsePosition(at)
		must(t, err)
		_, err = Take(ctx, v, "cluster", p)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", at, err, want)
		}
	}
	if _, err := Take(ctx, v, "groups/00", substrate.Position{}); !errors.Is(err, ErrNoStream) {
		t.Errorf("a stream that is not there: %v", err)
	}
	for _, bad := range []string{"topics/t/0", "groups/7", "clusters", "cluster/x", "groups", ""} {
		if _, err := Take(ctx, v, bad, substrate.Position{}); err == nil || errors.Is(err, ErrNoStream) {
			t.Errorf("stream %q: %v", bad, err)
		}
	}
}

func TestBackupFile(t *testing.T) {
	v, stream := newVolume(t)
	must(t, publish(claimCluster(t, v, stream, 1), &projections.ProducerIDsAllocated{First: 0, Count: 10}))
	s, err := Take(context.Background(), v, "cluster", substrate.Position{})
	must(t, err)
	b := &Backup{Volume: v.ID, MadeMS: 5, Saved: []Saved{s}}
	file := filepath.Join(t.TempDir(), "b")
	must(t, b.Write(file))
	got, err := Read(file)
	if err != nil || !reflect.DeepEqual(got, b) {
		t.Fatalf("came back as %+v, %v", got, err)
	}
	if err := b.Write(file); err == nil || !strings.Contains(err.Error(), "is there already") {
		t.Errorf("written twice: %v", err)
	}
	data, err := os.ReadFile(file)
	must(t, err)
	if data[11] != 0 {
		t.Errorf("a file without secrets has flags %d", data[11])
	}
	// Each byte counts.
	for i := range data {
		bad := append([]byte{}, data...)
		bad[i] ^= 0x20
		var damage *substrate.DamageError
		if _, err := Decode("b", bad); !errors.As(err, &damage) {
			t.Fatalf("byte %d flipped: %v", i, err)
		}
	}
	if _, err := Decode("b", data[:len(data)-1]); err == nil {
		t.Error("a file that is cut off is taken")
	}
	// The hook: whatever says that it has secrets is told of, and marks the file.
	b.Saved[0].Secrets = []string{"credentials"}
	must(t, b.Write(file+"2"))
	data, err = os.ReadFile(file + "2")
	must(t, err)
	if got, err := Decode("b", data); err != nil || !reflect.DeepEqual(got.Secrets(), []string{"credentials"}) || data[11] != byte(FlagSecrets) {
		t.Errorf("a file with secrets has flags %d: %v", data[11], err)
	}
}

func TestBackupsThatCannotBeAreRefused(t *testing.T) {
	state, err := projections.Encode(projections.NewCluster())
	must(t, err)
	ok := Saved{Stream: "cluster", State: state}
	for name, saved := range map[string][]Saved{
		"twice": {ok, ok}, "no stream": {{Stream: "x", State: state}}, "a partition's": {{Stream: "topics/t/0", State: state}},
		"no state": {{Stream: "cluster"}}, "another's state": {{Stream: "txns/00", State: state}},
	} {
		data, err := substrate.EncodeFile(KindBackup, 0, &Backup{Saved: saved})
		must(t, err)
		if _, err := Decode("b", data); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
}

func FuzzDecode(f *testing.F) {
	state, err := projections.Encode(projections.NewCluster())
	if err != nil {
		f.Fatal(err)
	}
	data, err := substrate.EncodeFile(KindBackup, 0, &Backup{Volume: "v", Saved: []Saved{{Stream: "cluster", State: state}}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Fuzz(func(t *testing.T, b []byte) { _, _ = Decode("b", b) })
}

// A volume that is another by now is left alone.
func TestRunOnAnotherVolume(t *testing.T) {
	v, stream := newVolume(t)
	w := claimCluster(t, v, stream, 1)
	must(t, publish(w, &projections.ConfigChanged{Resource: projections.ResourceBroker, Set: map[string]string{"a": "1"}}))
	s, err := Take(context.Background(), v, "cluster", substrate.Position{})
	must(t, err)
	must(t, publish(w, &projections.ConfigChanged{Resource: projections.ResourceBroker, Set: map[string]string{"a": "2"}}))
	old := *v
	old.ID = "other"
	if _, err := Run(context.Background(), &old, Request{Saved: []Saved{s}}); err == nil {
		t.Error("it ran")
	}
	es, err := v.ListEpochs(stream)
	must(t, err)
	if len(es) != 2 {
		t.Errorf("epochs are %v", es)
	}
	p, err := Run(context.Background(), v, Request{Saved: []Saved{s}})
	if err != nil || len(p.Streams) != 1 || p.Streams[0].Position != "2-1" {
		t.Fatalf("%+v, %v", p, err)
	}
	// The next owner need not seal it, and goes on from there.
	if owner, _, err := metalog.NeedsSeal(v, stream, 9, ""); owner != "" || err != nil {
		t.Errorf("session %s is to be sealed: %v", owner, err)
	}
	next := claimCluster(t, v, stream, 3)
	if got := next.Committed().State.BrokerConfigs(""); got["a"] != "1" {
		t.Errorf("the next owner has %v", got)
	}
	if err := publish(w, &projections.ProducerIDsAllocated{First: 0, Count: 1}); !errors.Is(err, substrate.ErrFenced) {
		t.Errorf("the owner of before goes on: %v", err)
	}
}
