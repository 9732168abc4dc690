package partition

import (
	"context"
	"encoding/binary"
	"math"
)

// abortedTxns are the transactions that ended with an abort: by producer, from the
// first offset of each to its marker.
type abortedTxns map[int64][]txnRange

type txnRange struct{ first, marker int64 }

// has reports whether a batch's records belong to an aborted transaction.
func (a abortedTxns) has(b batch) bool {
	for _, r := range a[b.producer()] {
		if b.base() >= r.first && b.base() < r.marker {
			return true
		}
	}
	return false
}

// findTxns walks the headers from an offset on, up to the high watermark at most, until
// it knows how each transaction ended that has records below upto. Where one has not, it
// returns the offset at which that begins: from there on nothing is known.
func (p *Partition) findTxns(ctx context.Context, v view, from, upto int64) (_ abortedTxns, known int64, err error) {
	out, open := abortedTxns{}, map[int64]int64{}
	undecided := func() int64 {
		first := int64(math.MaxInt64)
		for _, o := range open {
			first = min(first, o)
		}
		return first
	}
	for i, s := range v.segs {
		end := v.hw.offset
		if i < len(v.segs)-1 {
			end = v.segs[i+1].id.Base
		}
		if end <= from {
			continue
		}
		if s.id.Base >= upto && undecided() >= upto {
			break
		}
		var fault error
		err := p.scanHeaders(ctx, s, 0, v.limit(i), func(pos int64, b batch) bool {
			switch {
			case b.next() <= from || b.attrs()&attrTransactional == 0:
			case b.attrs()&attrControl == 0:
				if _, there := open[b.producer()]; !there {
					open[b.producer()] = b.base()
				}
			default:
				first, there := open[b.producer()]
				delete(open, b.producer())
				abort := false
				if there {
					abort, fault = p.isAbort(s, pos, b)
				}
				if abort {
					out[b.producer()] = append(out[b.producer()], txnRange{first, b.base()})
				}
			}
			return fault == nil
		})
		if err == nil {
			err = fault
		}
		if err != nil {
			return nil, 0, err
		}
	}
	return out, min(upto, undecided()), nil
}

// isAbort reads a marker: its record's key is a version and a type, of which 0 aborts.
func (p *Partition) isAbort(s *segment, pos int64, head batch) (bool, error) {
	b := make(batch, head.size())
	if err := p.readAt(s, b, pos); err != nil {
		return false, err
	}
	var l looked
	it, err := l.records(b)
	var r record
	if err != nil || !it.next(&r) || len(r.key) < 4 {
		return false, nil // emptied: its transaction has no records
	}
	return binary.BigEndian.Uint16(r.key[2:]) == 0, nil
}
