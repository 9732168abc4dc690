package metalog_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"kaas.dev/kaas/internal/substrate"
	"kaas.dev/kaas/metalog"
)

// BenchmarkPublish is the time from Publish to its acknowledgement: temp file,
// fsync, rename, directory fsync, Check. Many publishers share an entry.
func BenchmarkPublish(b *testing.B) {
	for _, publishers := range []int{1, 16, 256} {
		b.Run(fmt.Sprintf("publishers=%d", publishers), func(b *testing.B) {
			v := newVolume(b, nil)
			w := claim(b, session(b, v), 1, metalog.Options{Followed: true})
			ctx := context.Background()
			b.ReportAllocs()
			b.ResetTimer()
			var wg sync.WaitGroup
			for i := range publishers {
				wg.Go(func() {
					for n := i; n < b.N; n += publishers {
						if _, err := w.Publish(ctx, "bench", func(j journal) ([]metalog.Event, error) {
							return []metalog.Event{{Type: "Nothing", Data: []byte{0xc0}}}, nil
						}); err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			wg.Wait()
			b.StopTimer()
			b.ReportMetric(float64(w.Committed().Pos.Seq)/float64(b.N), "entries/op")
		})
	}
}

// BenchmarkClaim is a takeover of a stream with a living owner: claim, seal, plug,
// fold, first base.
func BenchmarkClaim(b *testing.B) {
	v := newVolume(b, nil)
	b.ReportAllocs()
	for e := 1; b.Loop(); e++ {
		w := claim(b, session(b, v), substrate.Epoch(e), metalog.Options{})
		publish(b, w, "x")
	}
}
