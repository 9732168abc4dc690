package check

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// BenchmarkHealthy checks a sound volume of 10,000 partitions with a record in each, as
// the broker left it that was stopped. It has to take less than 30 s.
func BenchmarkHealthy(b *testing.B) {
	const topics, each = 10, 1000
	dir := b.TempDir()
	n := startNode(b, dir, 1)
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	cl, err := kgo.NewClient(kgo.SeedBrokers(n.Addr()), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	must(b, err)
	for i := range topics {
		_, err := kadm.NewClient(cl).CreateTopic(ctx, each, 1, nil, fmt.Sprint("t", i))
		must(b, err)
	}
	var rs []*kgo.Record
	for i := range topics * each {
		rs = append(rs, &kgo.Record{Topic: fmt.Sprint("t", i/each), Partition: int32(i % each), Value: []byte("something")})
	}
	must(b, cl.ProduceSync(ctx, rs...).FirstErr())
	cl.Close()
	stopNode(b, n)
	for _, deep := range []bool{false, true} {
		b.Run(map[bool]string{false: "names", true: "deep"}[deep], func(b *testing.B) {
			var most uint64
			v := volume(b, dir)
			for b.Loop() {
				began := time.Now()
				r, err := Run(ctx, v, Options{Deep: deep})
				must(b, err)
				if r.Faults > 0 || r.Partitions != topics*each || r.Segments != topics*each {
					b.Fatalf("%+v", r)
				}
				if took := time.Since(began); took > 30*time.Second {
					b.Errorf("it took %v", took)
				}
				var m runtime.MemStats
				runtime.ReadMemStats(&m)
				most = max(most, m.HeapSys)
			}
			b.ReportMetric(float64(most)/1e6, "heap-MB")
		})
	}
}
