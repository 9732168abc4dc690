package partition

import (
	"fmt"
	"math"

	"github.com/twmb/franz-go/pkg/kerr"
)

// RecordsError is a refusal of records of a batch, and so of the whole batch
// (KIP-467). It wraps its cause.
type RecordsError struct {
	Cause   *kerr.Error
	Records []RefusedRecord // the first ones, never none
	More    bool            // there are others
}

// RefusedRecord says what is wrong with one record.
type RefusedRecord struct {
	Index   int32 // in the batch, from 0
	Message string
}

// maxRecordErrors is how many records of a batch a refusal names.
const maxRecordErrors = 100

func (e *RecordsError) Error() string {
	s := fmt.Sprintf("%v: record %d: %s", e.Cause, e.Records[0].Index, e.Records[0].Message)
	if len(e.Records) > 1 || e.More {
		s += ", and others"
	}
	return s
}

// add names a record, or says that there are more than are named.
func (e *RecordsError) add(index int32, message string) {
	if len(e.Records) == maxRecordErrors {
		e.More = true
		return
	}
	e.Records = append(e.Records, RefusedRecord{index, message})
}

func (e *RecordsError) Unwrap() error { return e.Cause }

// timeBounds are the least and largest timestamp that a record may have, in ms.
type timeBounds struct{ least, most int64 }

// noTimestamp is what a record without a timestamp has; no bound is for it.
const noTimestamp = -1

func (t timeBounds) admits(ts int64) bool {
	return ts == noTimestamp || ts >= t.least && ts <= t.most
}

func (c *Config) timeBounds() timeBounds {
	t, now := timeBounds{math.MinInt64, math.MaxInt64}, c.Now()
	if c.TimestampBeforeMax > 0 {
		t.least = now.UnixMilli() - c.TimestampBeforeMax.Milliseconds()
	}
	if c.TimestampAfterMax > 0 {
		t.most = now.UnixMilli() + c.TimestampAfterMax.Milliseconds()
	}
	return t
}

// validateTime holds a batch's timestamps against the topic's bounds. The batch's
// header tells its largest; for a bound below, and to tell which records are
// refused, the records are looked at. Where the header lies, inspect sets it right and
// asks again.
func validateTime(cfg *Config, b batch) error {
	if b.attrs()&attrLogAppendTime != 0 {
		return fmt.Errorf("%w: a producer may not send append times", kerr.InvalidTimestamp)
	}
	if cfg.LogAppendTime {
		return nil
	}
	t := cfg.timeBounds()
	if t.least == math.MinInt64 && b.maxTime() <= t.most {
		return nil
	}
	if err := checkTimes(t, b); err != nil {
		return err
	}
	if !t.admits(b.maxTime()) {
		return fmt.Errorf("%w: the batch says that its largest is %d, which is not from %d to %d", kerr.InvalidTimestamp, b.maxTime(), t.least, t.most)
	}
	return nil
}

func checkTimes(t timeBounds, b batch) error {
	out := &RecordsError{Cause: kerr.InvalidTimestamp}
	index := int32(0)
	err := b.eachRecord(func(r *record) bool {
		ts, fits := b.sentTime(r)
		switch {
		case fits && t.admits(ts):
		case len(out.Records) == maxRecordErrors:
			out.More = true
			return false
		case !fits:
			out.Records = append(out.Records, RefusedRecord{index, overflow(b, r)})
		default:
			out.Records = append(out.Records, RefusedRecord{index, fmt.Sprintf("timestamp %d is not from %d to %d", ts, t.least, t.most)})
		}
		index++
		return true
	})
	if err != nil {
		return invalid("records cannot be read: %v", err)
	}
	if len(out.Records) > 0 {
		return out
	}
	return nil
}

func overflow(b batch, r *record) string {
	return fmt.Sprintf("timestamp %d%+d overflows", b.baseTime(), r.tsDelta)
}

// eachRecord calls f with each record until it returns false.
func (b batch) eachRecord(f func(r *record) bool) error {
	l := lookers.Get().(*looked)
	defer lookers.Put(l)
	n, all := int32(0), true
	err := l.walk(b, maxInflated, func(r *record) bool {
		n++
		all = f(r)
		return all
	})
	if err == nil && all && n != b.count() {
		return fmt.Errorf("the header says %d, there are %d", b.count(), n)
	}
	return err
}
