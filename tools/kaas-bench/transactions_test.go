package main

import (
	"fmt"
	"testing"
)

// BenchmarkTransaction commits transactions of txnRecords records over 6 partitions, on a
// broker in a process of its own. compare --transactions gives the same to Apache Kafka.
func BenchmarkTransaction(b *testing.B) {
	s, err := newScratch(b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	k, err := buildKaas(b.Context(), s)
	if err != nil {
		b.Fatal(err)
	}
	for _, producers := range []int{1, 16} {
		b.Run(fmt.Sprintf("producers=%d", producers), func(b *testing.B) {
			c, err := k.start(b.Context(), s, fmt.Sprintf("data-%d", producers), durable)
			if err != nil {
				b.Fatal(err)
			}
			defer c.stop()
			t := (&server{with: k, child: c}).target("bench", durable, 6)
			if err := t.ensureTopic(b.Context()); err != nil {
				b.Fatal(err)
			}
			l := cell{Size: 1024, Clients: producers}.transactions(t, plan{})
			l.Transactions = int64(b.N)
			b.ResetTimer()
			r, err := l.run(b.Context())
			if err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(r.RecordsPerSecond, "txn/s")
			b.ReportMetric(r.Latency.P99, "p99-ms")
		})
	}
}
