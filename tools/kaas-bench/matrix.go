package main

import (
	"fmt"
	"time"
)

// cell is one load that both servers get.
type cell struct {
	Mode       mode     `json:"mode"`
	Kind       cellKind `json:"kind"`
	Size       byteSize `json:"size"`
	Partitions int32    `json:"partitions"`
	Clients    int      `json:"clients"` // producers or consumers
	Rate       float64  `json:"rate,omitempty"`
}

type cellKind string

const (
	produceKind cellKind = "produce"
	rateKind    cellKind = "e2e"
	consumeKind cellKind = "consume"
	txnKind     cellKind = "transactions"
)

func (c cell) String() string {
	return fmt.Sprintf("%s, %s %s, %d partitions, %d clients", c.Mode, c.Kind, &c.Size, c.Partitions, c.Clients)
}

// plan says how much is measured.
type plan struct {
	Modes      []mode
	Sizes      []byteSize
	Partitions []int32
	Producers  []int
	Rounds     int
	Warmup     time.Duration
	Cell       time.Duration
	Txns       bool // transactions, and nothing else
}

// quick is for a look: fewer cells, shorter, fewer rounds.
func (p plan) quick() plan {
	p.Rounds = 2
	p.Warmup, p.Cell = 500*time.Millisecond, 2*time.Second
	p.Partitions = []int32{1, 6}
	return p
}

// Rates of the cells that are about latency, which a server of either kind keeps
// up with on a disk that syncs a thousand times a second.
const (
	durableRate   = 500
	pageCacheRate = 5000
)

// cells are the loads of a mode, in order. Reading costs the same in both modes,
// so it is looked at in one.
func (p plan) cells(m mode) (out []cell) {
	if p.Txns {
		for _, n := range p.Producers {
			out = append(out, cell{Mode: m, Kind: txnKind, Size: 1024, Partitions: 6, Clients: n})
		}
		return out
	}
	for _, size := range p.Sizes {
		for _, partitions := range p.Partitions {
			for _, n := range p.Producers {
				out = append(out, cell{Mode: m, Kind: produceKind, Size: size, Partitions: partitions, Clients: n})
			}
		}
	}
	rate := float64(durableRate)
	if m == pageCache {
		rate = pageCacheRate
	}
	out = append(out, cell{Mode: m, Kind: rateKind, Size: 1024, Partitions: 6, Clients: 4, Rate: rate})
	if m == pageCache {
		for _, size := range p.Sizes {
			for _, partitions := range p.Partitions {
				out = append(out, cell{Mode: m, Kind: consumeKind, Size: size, Partitions: partitions, Clients: 1})
			}
		}
	}
	return out
}

// fillBytes is what a topic holds that is consumed.
const fillBytes = 256 << 20

// partitionWarmup is what each partition adds to the warm-up: the first batch of
// each makes files, and that is no figure of a server that runs.
const partitionWarmup = 15 * time.Millisecond

// txnRecords is how many records a transaction has.
const txnRecords = 12

// transactions is the load of a cell of transactions.
func (c cell) transactions(t target, p plan) *txnLoad {
	return &txnLoad{target: t, window: window{Warmup: p.Warmup, Duration: p.Cell}, Size: c.Size, Producers: c.Clients, Records: txnRecords}
}

// produce is the producing side of the cell.
func (c cell) produce(t target, p plan) *produceLoad {
	return &produceLoad{
		target: t, window: window{Warmup: p.Warmup + time.Duration(c.Partitions)*partitionWarmup, Duration: p.Cell},
		Size: c.Size, Rate: c.Rate, Producers: c.Clients, Acks: "all",
		Linger: 5 * time.Millisecond, Batch: 16 << 10, Buffer: 2 << 20, Compression: "none",
	}
}
