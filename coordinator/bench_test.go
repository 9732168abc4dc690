package coordinator

import (
	"fmt"
	"io"
	"log/slog"
	"testing"
	"time"

	"kaas.dev/kaas/internal/substrate"
)

func benchBroker(b *testing.B, dir string) *Broker {
	b.Helper()
	d, err := substrate.OpenDir(dir)
	if err != nil {
		b.Fatal(err)
	}
	v, err := substrate.OpenVolume(d, "")
	if err != nil {
		b.Fatal(err)
	}
	br, err := Start(ctx0(time.Minute), v, Options{NodeID: 1, Log: slog.New(slog.NewTextHandler(io.Discard, nil))})
	if err != nil {
		b.Fatal(err)
	}
	return br
}

// BenchmarkRestart is a clean stop and a start until all partitions are served.
func BenchmarkRestart(b *testing.B) {
	for _, n := range []int32{0, 100, 1000} {
		b.Run(fmt.Sprintf("partitions=%d", n), func(b *testing.B) {
			dir := b.TempDir()
			br := benchBroker(b, dir)
			if n > 0 {
				if _, err := br.CreateTopic(ctx0(time.Minute), TopicSpec{Name: "a", Partitions: n}, false); err != nil {
					b.Fatal(err)
				}
			}
			for b.Loop() {
				if err := br.Stop(ctx0(time.Minute)); err != nil {
					b.Fatal(err)
				}
				br = benchBroker(b, dir)
				for !br.Ready() {
					time.Sleep(time.Millisecond)
				}
			}
			_ = br.Stop(ctx0(time.Minute))
		})
	}
}

// BenchmarkPartition is the lookup that every produce and fetch makes.
func BenchmarkPartition(b *testing.B) {
	br := benchBroker(b, b.TempDir())
	topic, err := br.CreateTopic(ctx0(time.Minute), TopicSpec{Name: "a", Partitions: 3}, false)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := br.Partition(topic.ID, 1); err != nil {
			b.Fatal(err)
		}
	}
	_ = br.Stop(ctx0(time.Minute))
}
