package check

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/vmihailenco/msgpack/v5"

	"kaas.dev/kaas/internal/substrate"
	"kaas.dev/kaas/internal/substrate/faultfs"
	"kaas.dev/kaas/metalog"
	"kaas.dev/kaas/partition"
	"kaas.dev/kaas/projections"
)

// site is a copy of the sample to do damage to.
type site struct {
	t    *testing.T
	dir  string
	v    *substrate.Volume
	view *projections.Cluster
	fs   substrate.FS // to check through
}

func newSite(t *testing.T) *site {
	s := &site{t: t, dir: clone(t, sample(t))}
	s.v = volume(t, s.dir)
	s.view, s.fs = cluster(t, s.v), s.v.FS
	return s
}

func (s *site) at(name string) string { return filepath.Join(s.dir, filepath.FromSlash(name)) }

func (s *site) read(name string) []byte {
	s.t.Helper()
	b, err := os.ReadFile(s.at(name))
	must(s.t, err)
	return b
}

// write replaces a file, which may be a link to the sample's.
func (s *site) write(name string, b []byte) string {
	s.t.Helper()
	must(s.t, os.RemoveAll(s.at(name)))
	must(s.t, os.MkdirAll(filepath.Dir(s.at(name)), 0o755))
	must(s.t, os.WriteFile(s.at(name), b, 0o644))
	return name
}

func (s *site) remove(name string) string {
	s.t.Helper()
	s.there(name)
	must(s.t, os.RemoveAll(s.at(name)))
	return name
}

func (s *site) there(name string) {
	s.t.Helper()
	if _, err := os.Lstat(s.at(name)); err != nil {
		s.t.Fatal(err)
	}
}

func (s *site) rename(from, to string) string {
	s.t.Helper()
	must(s.t, os.Rename(s.at(from), s.at(to)))
	return to
}

func (s *site) copy(from, to string) string {
	s.t.Helper()
	must(s.t, os.CopyFS(s.at(to), os.DirFS(s.at(from))))
	return to
}

// flip changes a bit of a byte, counted from the end where it is negative.
func (s *site) flip(name string, at int) string {
	s.t.Helper()
	b := s.read(name)
	if at < 0 {
		at += len(b)
	}
	b[at] ^= 0x10
	return s.write(name, b)
}

func (s *site) cut(name string, n int) string {
	s.t.Helper()
	b := s.read(name)
	return s.write(name, b[:len(b)-n])
}

func (s *site) cluster() string { return clusterStream(s.v) }

// newest is a stream's newest epoch that has an entry, and its newest entry.
func (s *site) newest(stream string) (epoch string, entry string, pos substrate.Position) {
	s.t.Helper()
	p, err := metalog.Newest(s.v, stream)
	must(s.t, err)
	return path.Join(stream, substrate.EpochName(p.Epoch)), substrate.EntryPath(stream, p), p
}

func (s *site) orders() projections.TopicID { return s.view.Topic("orders").ID }

func (s *site) manifest(topic string, index int32) (string, *partition.Manifest) {
	s.t.Helper()
	id := s.view.Topic(topic).ID
	stream := partition.ManifestStream(id, index)
	m, _, err := metalog.ReadState(s.t.Context(), s.v, stream, partition.ManifestSchema())
	must(s.t, err)
	return partition.Dir(id, index), m.State
}

// moved is a partition of orders that has had several leaders.
func (s *site) moved() int32 {
	s.t.Helper()
	for i, p := range s.view.Topic("orders").Partitions {
		if p.Epoch > 2 {
			return int32(i)
		}
	}
	s.t.Fatal("no partition has had several leaders")
	return 0
}

// before is the newest entry of a leader epoch that was followed by others, one that ok
// accepts. Which epochs a partition has had, and how they ended, is the brokers' own affair.
func (s *site) before(ok func(*metalog.Entry) bool) (stream string, newest *metalog.Entry) {
	s.t.Helper()
	for _, t := range s.view.Topics() {
		for i, p := range t.Partitions {
			for epoch := substrate.Epoch(1); epoch < substrate.Epoch(p.Epoch); epoch++ {
				stream := partition.ManifestStream(t.ID, int32(i))
				at, err := metalog.NewestEntry(s.v, stream, epoch)
				must(s.t, err)
				if at.IsZero() {
					continue
				}
				e, _, err := metalog.ReadEntry(s.v, stream, at)
				must(s.t, err)
				if ok(e) {
					return stream, e
				}
			}
		}
	}
	s.t.Fatal("no such leader epoch")
	return "", nil
}

// segment is the first segment of a partition that is ended and that ok accepts.
func (s *site) segment(topic string, ok func(partition.Segment) bool) (dir string, seg partition.Segment) {
	s.t.Helper()
	dir, m := s.manifest(topic, 0)
	i := slices.IndexFunc(m.Segments, func(g partition.Segment) bool { return g.End >= 0 && ok(g) })
	if i < 0 {
		s.t.Fatalf("no such segment of %s in %+v", topic, m.Segments)
	}
	return dir, m.Segments[i]
}

func (s *site) anySegment() (file, index string) {
	dir, seg := s.segment("orders", func(g partition.Segment) bool {
		if g.End-g.Base < 10 { // one that a leader had just begun when it was followed
			return false
		}
		_, err := os.Stat(s.at(path.Join(partition.Dir(s.orders(), 0), g.IndexName())))
		return err == nil
	})
	return path.Join(dir, seg.String()), path.Join(dir, seg.IndexName())
}

// forge rewrites the body of a framed file, checksums and all.
func (s *site) forge(name string, kind substrate.Kind, change func(map[string]any)) string {
	s.t.Helper()
	f, err := substrate.DecodeFrame(name, kind, s.read(name))
	must(s.t, err)
	var body map[string]any
	must(s.t, msgpack.Unmarshal(f.Body, &body))
	change(body)
	b, err := substrate.EncodeFile(kind, f.Flags, body)
	must(s.t, err)
	return s.write(name, b)
}

// tail is the open segment of a partition with several batches past its recovery point.
func (s *site) tail() (file string, from int64) {
	s.t.Helper()
	for i := range int32(3) {
		dir, m := s.manifest("orders", i)
		if n := len(m.Segments); n > 0 && m.Segments[n-1].End < 0 {
			name := path.Join(dir, m.Segments[n-1].String())
			if b := s.read(name); int64(len(b)) > m.Recovery.Pos+2*45_000 { // two batches and more
				return name, m.Recovery.Pos
			}
		}
	}
	s.t.Fatal("no partition has a tail")
	return "", 0
}

func (s *site) session() *substrate.Session {
	s.t.Helper()
	o, err := s.v.OpenSession(substrate.Identity{Role: substrate.RoleData, NodeID: 9})
	must(s.t, err)
	s.t.Cleanup(func() { must(s.t, o.Close(context.Background())) })
	return o
}

// sealAll ends every session, so that no broker seems to be at work.
func (s *site) sealAll() {
	s.t.Helper()
	es, err := s.v.ListFresh(substrate.SessionsDir)
	must(s.t, err)
	for _, e := range es {
		must(s.t, s.v.Seal(s.t.Context(), e.Name))
	}
}

// sealed is a session that is.
func (s *site) sealed() string {
	s.t.Helper()
	es, err := s.v.ListFresh(substrate.SessionsDir)
	must(s.t, err)
	for _, e := range es {
		if ok, err := s.v.Unsealed(e.Name); err == nil && !ok {
			return e.Name
		}
	}
	s.t.Fatal("no session is sealed")
	return ""
}

// token is a session's, of one that owns an epoch of the cluster stream.
func (s *site) token() string {
	s.t.Helper()
	_, _, p := s.newest(s.cluster())
	name := substrate.ClaimPath(s.cluster(), p.Epoch)
	claim, err := substrate.DecodeClaim(name, s.read(name))
	must(s.t, err)
	for _, n := range []string{"0", "1"} {
		if i, err := os.Stat(s.at(substrate.SessionPath(claim.Session) + "/" + n)); err == nil && !i.IsDir() {
			return substrate.SessionPath(claim.Session) + "/" + n
		}
	}
	s.t.Fatal("no token")
	return ""
}

// denied makes a name unreadable.
func (s *site) denied(op, name string, err error) string {
	s.there(name)
	s.fs = &faultfs.FS{FS: s.fs, Hook: func(o faultfs.Op) faultfs.Fault {
		if o.Name == op && o.Path == name {
			return faultfs.Fault{Err: err}
		}
		return faultfs.Fault{}
	}}
	return name
}

// damages are what verify has to find: each does one, and returns the file that has to be
// named.
var damages = []struct {
	name string
	do   func(*site) string
	kind string
	text string // in the detail
	deep bool   // only a deep check can find it
	note bool   // nothing is at risk
}{
	{"volume/id has a flipped bit", func(s *site) string { return s.flip("volume/id", -1) }, kindVolume, "checksum", false, false},
	{"volume/id is gone", func(s *site) string { return s.remove("volume/id") }, kindVolume, "no ID file", false, false},
	{"volume/ is gone", func(s *site) string { s.remove("volume"); return "volume/id" }, kindVolume, "no such file", false, false},

	{"a token is gone", func(s *site) string { return path.Dir(s.remove(s.token())) }, kindSession, "0 tokens", false, false},
	{"a token is there twice", func(s *site) string {
		t := s.token()
		s.write(path.Dir(t)+"/"+string('0'+'1'-t[len(t)-1]), s.read(t))
		return path.Dir(t)
	}, kindSession, "2 tokens", false, false},
	{"a token has a flipped bit", func(s *site) string { return s.flip(s.token(), 30) }, kindSession, "checksum", false, false},
	{"a session is gone", func(s *site) string { return s.remove(path.Dir(s.token())) }, kindSessionMissing, "has claimed an epoch of", false, false},
	{"all sessions are gone", func(s *site) string { t := path.Dir(s.token()); s.remove("sessions"); return t }, kindSessionMissing, "never removed", false, false},

	{"the cluster stream's newest epoch is gone", func(s *site) string {
		e, _, _ := s.newest(s.cluster())
		s.remove(e)
		return partition.TopicDir(s.view.Topic("newest").ID)
	}, kindTopicUnknown, "gone back, or was begun anew", false, false},
	{"the cluster stream's newest epoch is empty", func(s *site) string {
		e, _, _ := s.newest(s.cluster())
		s.remove(e)
		must(s.t, os.Mkdir(s.at(e), 0o755))
		return e
	}, metalog.KindEpochEmpty, "neither a claim nor an entry", false, false},
	{"the cluster stream is gone", func(s *site) string { return s.remove(s.cluster()) }, metalog.KindStream, "missing", false, false},
	{"meta/ is gone", func(s *site) string { s.remove("meta"); return s.cluster() }, metalog.KindStream, "missing", false, false},
	{"a stream has no entries", func(s *site) string {
		stream := path.Join(s.v.MetaDir(), "txns/01")
		ps, err := metalog.Positions(s.v, stream)
		must(s.t, err)
		for _, p := range ps {
			s.remove(substrate.EntryPath(stream, p))
		}
		return stream
	}, metalog.KindStream, "no entry in any epoch", false, false},
	{"a claim is gone", func(s *site) string {
		_, _, p := s.newest(s.cluster())
		return s.remove(substrate.ClaimPath(s.cluster(), p.Epoch))
	}, metalog.KindClaimMissing, "nobody can tell whose", false, false},
	{"a claim has a flipped bit", func(s *site) string {
		_, _, p := s.newest(s.cluster())
		return s.flip(substrate.ClaimPath(s.cluster(), p.Epoch), 40)
	}, metalog.KindClaim, "checksum", false, false},
	{"an entry has a flipped bit", func(s *site) string { _, e, _ := s.newest(s.cluster()); return s.flip(e, -2) }, metalog.KindEntry, "checksum", false, false},
	{"an entry is torn", func(s *site) string { _, e, _ := s.newest(s.cluster()); return s.cut(e, 7) }, metalog.KindEntry, "truncated", false, false},
	{"the newest entry is empty", func(s *site) string { _, e, _ := s.newest(s.cluster()); return s.write(e, nil) }, metalog.KindEntryMissing, "is empty", false, false},
	{"the newest entry is gone", func(s *site) string { _, e, _ := s.newest(s.cluster()); return s.remove(e) }, metalog.KindEntryMissing, "HEAD names it", false, false},
	{"an entry in between is gone", func(s *site) string {
		_, e, p := s.newest(s.cluster())
		s.remove(substrate.EntryPath(s.cluster(), substrate.Position{Epoch: p.Epoch, Seq: p.Seq - 1}))
		return e
	}, metalog.KindEntryMissing, "the entry before it is missing", false, false},
	{"an entry follows another history", func(s *site) string {
		_, e, _ := s.newest(s.cluster())
		return s.forge(e, substrate.KindEntry, func(b map[string]any) { b["prev_sum"] = uint32(7) })
	}, metalog.KindChain, "with checksum 00000007", false, false},
	{"an entry is another session's", func(s *site) string {
		_, e, _ := s.newest(s.cluster())
		return s.forge(e, substrate.KindEntry, func(b map[string]any) { b["session"] = "somebody" })
	}, metalog.KindOwner, `by session "somebody"`, false, false},
	{"a base is not the fold", func(s *site) string {
		_, e, _ := s.newest(partition.ManifestStream(s.orders(), 0))
		_, m := s.manifest("orders", 0)
		m.LogStart++
		raw, err := partition.ManifestSchema().Encode(m)
		must(s.t, err)
		f, err := substrate.DecodeFrame(e, substrate.KindEntry, s.read(e))
		must(s.t, err)
		var body map[string]any
		must(s.t, msgpack.Unmarshal(f.Body, &body))
		body["state"] = raw
		b, err := substrate.EncodeFile(substrate.KindEntry, f.Flags|substrate.FlagBase, body)
		must(s.t, err)
		return s.write(e, b)
	}, metalog.KindState, "not the fold", false, false},
	{"an entry of another stream", func(s *site) string {
		a, b := path.Join(s.v.MetaDir(), "groups/00"), path.Join(s.v.MetaDir(), "groups/01")
		return s.write(substrate.EntryPath(b, substrate.Position{Epoch: 0, Seq: 1}), s.read(substrate.EntryPath(a, substrate.Position{Epoch: 0, Seq: 1})))
	}, metalog.KindEntry, "belongs to stream", false, false},
	{"an epoch's directory is gone", func(s *site) string {
		return s.remove(path.Join(partition.ManifestStream(s.orders(), s.moved()), substrate.EpochName(1)))
	}, metalog.KindEpochMissing, "epochs are never removed", false, false},
	{"a partition's newest epoch is gone", func(s *site) string {
		dir, m := s.manifest("orders", s.moved())
		e, _, _ := s.newest(dir + "/meta")
		s.remove(e)
		return path.Join(dir, m.Segments[len(m.Segments)-1].String())
	}, partition.KindSegmentAhead, "the manifest has gone back", false, false},
	{"HEAD has a flipped bit", func(s *site) string { e, _, _ := s.newest(s.cluster()); return s.flip(e+"/HEAD", -1) }, metalog.KindHead, "is a hint", false, true},
	{"an event of a newer build", func(s *site) string {
		_, e, _ := s.newest(path.Join(s.v.MetaDir(), "groups/00"))
		return s.forge(e, substrate.KindEntry, func(b map[string]any) {
			b["events"] = []any{map[string]any{"t": "ColourChanged", "d": []byte{0xc0}}}
		})
	}, metalog.KindEvent, "ColourChanged", false, true},
	{"history has a hole", func(s *site) string {
		stream, e := s.before(func(e *metalog.Entry) bool { return e.Pos.Seq > 2 })
		s.remove(substrate.EntryPath(stream, substrate.Position{Epoch: e.Pos.Epoch, Seq: 2}))
		return substrate.EntryPath(stream, substrate.Position{Epoch: e.Pos.Epoch, Seq: 3})
	}, metalog.KindPruned, "pruned history", false, true},
	{"a fenced owner's entry", func(s *site) string {
		stream, e := s.before(func(e *metalog.Entry) bool { return !e.Closed })
		late := substrate.Position{Epoch: e.Pos.Epoch, Seq: e.Pos.Seq + 1}
		name := s.write(substrate.EntryPath(stream, late), s.read(substrate.EntryPath(stream, e.Pos)))
		return s.forge(name, substrate.KindEntry, func(b map[string]any) {
			b["pos"], b["prev"] = late, e.Pos
			b["prev_sum"], b["events"], b["reason"] = e.Sum, nil, "too late"
		})
	}, metalog.KindDisowned, "is not part of the history", false, true},

	{"a shard of groups is gone", func(s *site) string {
		for i, p := range s.view.Shards(projections.ShardGroups) {
			if p.Epoch > 1 {
				return s.remove(path.Join(s.v.MetaDir(), fmt.Sprintf("groups/%02d", i)))
			}
		}
		s.t.Fatal("no shard was handed over")
		return ""
	}, kindShardMissing, "the cluster gives it to broker", false, false},
	{"a shard above the number", func(s *site) string {
		return s.copy(path.Join(s.v.MetaDir(), "txns/00"), path.Join(s.v.MetaDir(), "txns/02"))
	}, kindShardAbove, "the cluster has 2 shards", false, false},
	{"a shard under a wrong name", func(s *site) string {
		return s.rename(path.Join(s.v.MetaDir(), "groups/01"), path.Join(s.v.MetaDir(), "groups/1"))
	}, metalog.KindName, "number of a shard", false, false},
	{"a shard's epoch that was not given out", func(s *site) string {
		stream := path.Join(s.v.MetaDir(), "groups/02")
		_, err := s.session().Claim(s.t.Context(), stream, 40)
		must(s.t, err)
		return stream
	}, kindEpochAhead, "has epoch 40", false, false},
	{"a leader epoch that was not given out", func(s *site) string {
		stream := partition.ManifestStream(s.orders(), 2)
		_, err := s.session().Claim(s.t.Context(), stream, 30)
		must(s.t, err)
		return stream
	}, kindEpochAhead, "orders-2 has leader epoch 30", false, false},

	{"a topic's directory is gone", func(s *site) string { return s.remove(partition.TopicDir(s.orders())) }, kindTopicMissing, "topic orders, of 3 partitions", false, false},
	{"a partition's directory is gone", func(s *site) string { return s.remove(partition.Dir(s.orders(), 1)) }, kindPartitionMissing, "orders-1", false, false},
	{"a partition's manifest is gone", func(s *site) string { return s.remove(partition.ManifestStream(s.orders(), 1)) }, metalog.KindStream, "missing", false, false},
	{"a topic under another ID", func(s *site) string {
		return s.rename(partition.TopicDir(s.orders()), partition.TopicDir(projections.TopicID{7, 15: 1}))
	}, kindTopicUnknown, "does not know this topic", false, false},
	{"a topic under a name that is no ID", func(s *site) string {
		return s.rename(partition.TopicDir(s.orders()), "topics/"+strings.ToUpper(s.orders().String()[:30])+"AB")
	}, metalog.KindName, "not a topic ID", false, false},
	{"a partition above the number", func(s *site) string {
		return s.copy(partition.Dir(s.orders(), 1), partition.Dir(s.orders(), 3))
	}, kindPartitionAbove, "has 3 partitions of orders", false, false},
	{"a partition under a wrong name", func(s *site) string {
		return s.rename(partition.Dir(s.orders(), 1), partition.TopicDir(s.orders())+"/01")
	}, metalog.KindName, "no partition's name", false, false},
	{"a manifest of another partition", func(s *site) string {
		stream := partition.ManifestStream(s.orders(), 0)
		_, e, _ := s.newest(stream)
		m, _, err := metalog.ReadState(s.t.Context(), s.v, partition.ManifestStream(s.orders(), 1), partition.ManifestSchema())
		must(s.t, err)
		raw, err := partition.ManifestSchema().Encode(m.State)
		must(s.t, err)
		f, err := substrate.DecodeFrame(e, substrate.KindEntry, s.read(e))
		must(s.t, err)
		var body map[string]any
		must(s.t, msgpack.Unmarshal(f.Body, &body))
		body["state"] = raw
		b, err := substrate.EncodeFile(substrate.KindEntry, f.Flags|substrate.FlagBase, body)
		must(s.t, err)
		s.write(e, b)
		return stream
	}, partition.KindManifest, "manifest of orders-1", false, false},

	{"a segment is gone", func(s *site) string { f, _ := s.anySegment(); return s.remove(f) }, partition.KindSegmentMissing, "the manifest names it", false, false},
	{"a segment has lost its end", func(s *site) string { f, _ := s.anySegment(); return s.cut(f, 1) }, partition.KindSegmentShort, "that the manifest counts on", false, false},
	{"a segment has a flipped bit in a record", func(s *site) string { f, _ := s.anySegment(); return s.flip(f, 5000) }, partition.KindSegment, "checksum", true, false},
	{"a segment has a flipped bit in an offset", func(s *site) string { f, _ := s.anySegment(); return s.flip(f, 7) }, partition.KindSegment, "offset", true, false},
	{"a segment has a flipped bit in a leader epoch", func(s *site) string { f, _ := s.anySegment(); return s.flip(f, 15) }, partition.KindSegment, "leader epoch", true, false},
	{"a segment has a flipped bit in a length", func(s *site) string { f, _ := s.anySegment(); return s.flip(f, 9) }, partition.KindSegment, "damaged at byte 0", true, false},
	{"a tail is damaged", func(s *site) string {
		f, from := s.tail()
		s.flip(f, int(from)+2000)
		return f
	}, partition.KindTail, "a whole batch follows", true, false},
	{"a tail is torn", func(s *site) string {
		f, _ := s.tail()
		s.sealAll()
		return s.cut(f, 100)
	}, partition.KindTorn, "no whole batch", true, true},
	{"an index has a flipped bit", func(s *site) string { _, x := s.anySegment(); return s.flip(x, -1) }, partition.KindIndex, "checksum", false, false},
	{"an index is torn", func(s *site) string { _, x := s.anySegment(); return s.cut(x, 5) }, partition.KindIndexTorn, "ends early", false, true},
	{"an index points elsewhere", func(s *site) string {
		_, x := s.anySegment()
		return s.forge(x, substrate.Kind{'i', 'n', 'd', 'x'}, func(b map[string]any) {
			second := b["entries"].([]byte)[16:]
			binary.BigEndian.PutUint32(second[4:], binary.BigEndian.Uint32(second[4:])+1)
		})
	}, partition.KindIndex, "points into a batch", true, false},
	{"a list of aborted transactions has a flipped bit", func(s *site) string {
		dir, g := s.segment("payments", func(g partition.Segment) bool { return g.Aborted != nil })
		return s.flip(path.Join(dir, g.TxnIndexName()), 10)
	}, partition.KindTxnIndex, "another checksum", false, false},
	{"a segment under a wrong name", func(s *site) string { f, _ := s.anySegment(); return s.rename(f, path.Dir(f)+"/42.log") }, metalog.KindName, "no name that a leader gives", false, false},
	{"a segment is a directory", func(s *site) string {
		f, _ := s.anySegment()
		must(s.t, os.Mkdir(s.at(s.remove(f)), 0o755))
		return f
	}, metalog.KindName, "no regular file", false, false},
	{"a segment is a pipe", func(s *site) string {
		f, _ := s.anySegment()
		must(s.t, syscall.Mkfifo(s.at(s.remove(f)), 0o644))
		return f
	}, metalog.KindName, "no regular file", true, false},
	{"a claim is a pipe", func(s *site) string {
		_, _, p := s.newest(s.cluster())
		f := s.remove(substrate.ClaimPath(s.cluster(), p.Epoch))
		must(s.t, syscall.Mkfifo(s.at(f), 0o644))
		return f
	}, metalog.KindName, "no regular file", false, false},
	{"a segment of an epoch that nobody claimed", func(s *site) string {
		return s.write(path.Join(partition.Dir(s.orders(), 0), partition.SegmentID{Base: 9, Epoch: 99}.String()), nil)
	}, partition.KindSegmentAhead, "epoch 99", false, false},
	{"a zombie's segment", func(s *site) string {
		return s.write(path.Join(partition.Dir(s.orders(), s.moved()), partition.SegmentID{Base: 9, Epoch: 1, Gen: 77}.String()), []byte("late"))
	}, partition.KindUnnamed, "of epoch 1, whose leader was followed", false, true},
	{"a segment that was put aside", func(s *site) string {
		return s.write(path.Join(partition.Dir(s.orders(), 0), partition.SegmentID{Base: 9, Epoch: 1, Gen: 77}.String()+".damaged"), nil)
	}, partition.KindPutAside, "found its tail damaged", false, true},

	{"an entry under a wrong name", func(s *site) string { e, n, _ := s.newest(s.cluster()); return s.rename(n, e+"/1-2.snap") }, metalog.KindName, "not an entry's name", false, false},
	{"an entry in another epoch", func(s *site) string {
		_, n, _ := s.newest(s.cluster())
		return s.rename(n, s.cluster()+"/0000000000/"+path.Base(n))
	}, metalog.KindName, "another epoch", false, false},
	{"an epoch under a wrong name", func(s *site) string { e, _, _ := s.newest(s.cluster()); return s.rename(e, s.cluster()+"/7") }, metalog.KindName, "not an epoch directory's name", false, false},
	{"a file in the place of topics/", func(s *site) string { s.remove("topics"); return s.write("topics", nil) }, metalog.KindName, "a file where a directory", false, false},
	{"a segment may not be read", func(s *site) string { f, _ := s.anySegment(); return s.denied("open", f, syscall.EACCES) }, metalog.KindUnreadable, "permission denied", false, false},
	{"a segment lies on a bad sector", func(s *site) string { f, _ := s.anySegment(); return s.denied("read", f, syscall.EIO) }, metalog.KindUnreadable, "input/output error", true, false},
	{"an entry lies on a bad sector", func(s *site) string { _, e, _ := s.newest(s.cluster()); return s.denied("read", e, syscall.EIO) }, metalog.KindUnreadable, "input/output error", false, false},
	{"a partition may not be listed", func(s *site) string { return s.denied("list", partition.Dir(s.orders(), 2), syscall.EACCES) }, metalog.KindUnreadable, "permission denied", false, false},

	{"something is left over", func(s *site) string {
		return s.write("topics/~new~"+s.sealed()+"~1/0/meta/x", nil)[:len("topics/~new~")+36+len("~1")]
	}, kindLeftover, "is sealed", false, true},
	{"a removal is left over", func(s *site) string { return path.Dir(s.write("topics/~deleted~ab/x", nil)) }, kindDeleted, "removal has begun", false, true},
	{"a removed file is still open", func(s *site) string { return s.write(partition.Dir(s.orders(), 0)+"/.nfs0001", nil) }, kindNFS, "had it open", false, true},
	{"a stranger's file", func(s *site) string { return s.write(partition.Dir(s.orders(), 0)+"/README", nil) }, kindUnknown, "none of ours", false, true},
	{"metadata of another volume ID", func(s *site) string { return path.Dir(s.write("meta/before/x", nil)) }, kindOtherMeta, "another volume ID", false, true},
	{"a record of the election is torn", func(s *site) string { return s.write("election/00000000000000900000", []byte("ka")) }, kindElection, "header", false, true},
	{"a directory stands in the way of the election", func(s *site) string {
		must(s.t, os.Mkdir(s.at("election/00000000000000900000"), 0o755))
		return "election/00000000000000900000"
	}, metalog.KindName, "nobody can be elected", false, false},
	{"a topic that was not finished", func(s *site) string {
		id := projections.TopicID{3, 15: 3}
		must(s.t, partition.BuildTopic(s.v, "test", id, "late", 1, time.Now()))
		return partition.TopicDir(id)
	}, kindTopicUnnamed, "was not finished", false, true},
	{"a partition that was not finished", func(s *site) string {
		must(s.t, partition.BuildPartition(s.v, "test", s.orders(), "orders", 3, time.Now()))
		return partition.Dir(s.orders(), 3)
	}, kindTopicUnnamed, "not finished", false, true},
	{"a shard that was not made yet", func(s *site) string {
		for i, p := range s.view.Shards(projections.ShardTxns) {
			if p.Epoch == 1 {
				return s.remove(path.Join(s.v.MetaDir(), fmt.Sprintf("txns/%02d", i)))
			}
		}
		s.t.Skip("every shard was handed over")
		return ""
	}, kindShardUnmade, "for the first time", false, true},
}

// TestDamages: each damage is found, by the file and for what it is, with what to do about
// it; what is no danger is no fault; and nothing is changed.
func TestDamages(t *testing.T) {
	kinds := map[string]bool{}
	for _, d := range damages {
		kinds[d.kind] = true
		t.Run(d.name, func(t *testing.T) {
			s := newSite(t)
			file := d.do(s)
			before := tree(t, s.dir)
			r := run(t, s.fs, d.deep)
			if tree(t, s.dir) != before {
				t.Error("the volume was changed")
			}
			found := false
			for _, f := range r.Findings {
				if found = f.Kind == d.kind && f.File == file && f.Fault == !d.note && strings.Contains(f.Detail, d.text); found {
					if f.Advice == "" || f.Advice != Kinds[d.kind].Advice {
						t.Errorf("the advice is %q", f.Advice)
					}
					break
				}
			}
			if !found || d.note && r.Faults > 0 {
				t.Errorf("want %s of %s, %q, as a note: %v; found:", d.kind, file, d.text, d.note)
				for _, f := range r.Findings {
					t.Logf("%s %v %s: %s", f.Kind, f.Fault, f.File, f.Detail)
				}
			}
			if d.deep && !d.note && d.kind != metalog.KindName {
				if r := run(t, s.fs, false); r.Faults > 0 {
					t.Errorf("a look that is not deep finds it too: %+v", r.Findings)
				}
			}
		})
	}
	for kind := range Kinds {
		if !kinds[kind] {
			t.Errorf("no damage is of kind %s", kind)
		}
	}
}

// TestKinds: each says what it is and what to do.
func TestKinds(t *testing.T) {
	for name, k := range Kinds {
		if k.What == "" || k.Advice == "" || bytes.ContainsAny([]byte(k.What+k.Advice), "\n|") {
			t.Errorf("%s: %+v", name, k)
		}
	}
}
