package partition

import (
	"context"
	"testing"

	"github.com/vmihailenco/msgpack/v5"

	"kaas.dev/kaas/internal/substrate"
	"kaas.dev/kaas/metalog"
)

// A manifest from before there was a description is read, and gets one from its next leader.
func TestOldManifestIsDescribed(t *testing.T) {
	v := dirVolume(t)
	old := struct {
		TopicID   [16]byte `msgpack:"topic_id"`
		Topic     string   `msgpack:"topic"`
		Partition int32    `msgpack:"partition"`
	}{testID, "old", 0}
	b := must(msgpack.Marshal(&old))(t)
	if m := must(decodeManifest(b))(t); m.About != nil || m.Topic != "old" {
		t.Fatalf("read as %+v", m)
	}
	ev := must(metalog.NewEvent("PartitionCreated", &old))(t)
	if m := must(applyEvents(&Manifest{}, []metalog.Event{ev}))(t); m.About != nil {
		t.Fatalf("born with %+v", m.About)
	}

	s := newSession(t, v)
	cfg := testConfig()
	p := open(t, s, 1, cfg) // of a coordinator that tells nothing
	ok(t, p.Relinquish(context.Background()))
	cfg.About = &About{Partitions: 1, Configs: map[string]string{"a": "b"}, View: substrate.Position{Epoch: 3, Seq: 4}}
	p = open(t, s, 2, cfg)
	if m := p.w.Committed().State; !m.About.same(cfg.About) || m.About.View.Seq != 4 {
		t.Fatalf("the manifest tells %+v", m.About)
	}
	// Nobody takes it back to an earlier view.
	older := cfg
	older.About = &About{Partitions: 9, View: substrate.Position{Epoch: 3, Seq: 3}}
	p.Reconfigure(older)
	ok(t, p.Relinquish(context.Background()))
	m, _, err := metalog.ReadState(context.Background(), v, ManifestStream(testID, 0), ManifestSchema())
	if ok(t, err); m.State.About.Partitions != 1 {
		t.Fatalf("the manifest was taken back to %+v", m.State.About)
	}
}
