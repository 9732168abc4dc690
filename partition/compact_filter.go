package partition

// filter decides what becomes of a batch: nil where it goes, and whether what stays
// differs from it. isEnd marks the batch that the log's last ended segment ends with.
func (c *compaction) filter(b batch, isEnd bool) (out batch, changed bool, err error) {
	if b.next() > c.plan.upto {
		return b, false, nil // the map does not know what follows
	}
	if b.attrs()&attrControl != 0 {
		return c.filterMarker(b, isEnd)
	}
	gone := false
	if b.attrs()&attrTransactional != 0 {
		gone = c.aborted.has(b)
		c.open[b.producer()] = true
	}
	if b.count() == 0 || gone {
		return c.emptied(b, isEnd)
	}
	raw, err := c.l.inflate(b)
	if err == nil {
		err = c.keep(b, raw, c.horizon(b))
	}
	if err != nil {
		c.st.LeftAlone++ // its checksum is right: so it was sent, and so it stays
		return b, false, nil
	}
	n, tombstones, maxTime := c.sum.n, c.sum.tombstones, c.sum.maxTime
	c.st.Records += int64(b.count())
	c.st.Kept += int64(n)
	begins := tombstones && b.attrs()&attrHorizon == 0
	switch {
	case n == 0:
		return c.emptied(b, isEnd)
	case n == b.count() && !begins:
		return b, false, nil
	}
	baseTime, attrs := b.baseTime(), b.attrs()
	if begins {
		baseTime, attrs = c.beginHorizon(), attrs|attrHorizon
		c.kept = c.rebase(b, c.kept, baseTime)
	}
	level := c.p.cfg().Compression.level(attrs & attrCodec)
	out, err = rebuild(b, c.kept, n, baseTime, maxTime, attrs, level)
	return out, true, err
}

// kept is what keep found.
type keptSum struct {
	n          int32
	tombstones bool
	maxTime    int64
}

// horizon is when a batch's tombstones may go, ms; 0 where that has not begun yet.
func (c *compaction) horizon(b batch) int64 {
	if b.attrs()&attrHorizon == 0 {
		return 0
	}
	return b.baseTime()
}

// beginHorizon is when tombstones may go that are met now for the first time.
func (c *compaction) beginHorizon() int64 {
	return c.plan.now + c.p.cfg().Cleanup.DeleteRetention.Milliseconds()
}

// keep collects in c.kept the records that stay: the newest of their keys. A record
// without a key has no place in a compacted log.
func (c *compaction) keep(b batch, raw []byte, horizon int64) error {
	c.kept, c.sum = c.kept[:0], keptSum{maxTime: noTime}
	it := recordIter{rest: raw}
	var r record
	for it.next(&r) {
		past := r.value == nil && horizon != 0 && c.plan.now > horizon
		if r.key == nil || past || c.keys.newer(r.key, b.base()+r.offset) {
			continue
		}
		c.kept = append(c.kept, r.raw...)
		c.sum.n++
		c.sum.tombstones = c.sum.tombstones || r.value == nil
		c.sum.maxTime = max(c.sum.maxTime, b.timeOf(&r))
	}
	return it.err
}

// rebase writes records anew for another base timestamp.
func (c *compaction) rebase(b batch, raw []byte, baseTime int64) []byte {
	out := make([]byte, 0, len(raw)+10*int(b.count()))
	it := recordIter{rest: raw}
	var r record
	for it.next(&r) {
		out = appendRecord(out, &r, b.timeOf(&r)-baseTime)
	}
	return out
}

// emptied decides about a batch without records. Its header stays where it is a
// producer's last, which tells the next leader its sequence, and where the log would
// otherwise end in nothing that a fetch could return.
func (c *compaction) emptied(b batch, isEnd bool) (batch, bool, error) {
	if !isEnd && !c.lastOfProducer(b) {
		return nil, true, nil
	}
	if b.count() == 0 {
		return b, false, nil
	}
	out, err := rebuild(b, nil, 0, b.maxTime(), b.maxTime(), b.attrs()&^attrHorizon, 0)
	return out, true, err
}

// lastOfProducer reports whether the batch is what tells most of a producer that is not
// forgotten yet: its last committed one, or the marker that has raised its epoch since.
func (c *compaction) lastOfProducer(b batch) bool {
	c.p.mu.Lock()
	defer c.p.mu.Unlock()
	x := c.p.mu.producers.byID[b.producer()]
	if b.producer() < 0 || x == nil {
		return false
	}
	var last *seenBatch
	for i := range x.seen {
		s := &x.seen[i]
		if s.next() <= c.p.mu.hw.offset && !(s.marker && last != nil && !last.marker && last.epoch == s.epoch) {
			last = s
		}
	}
	return last != nil && last.base == b.base()
}

// filterMarker decides about a transaction's marker. It stays as long as any batch of
// its transaction is there, or it alone tells its producer's epoch, then until the horizon
// that begins when none is.
func (c *compaction) filterMarker(b batch, isEnd bool) (batch, bool, error) {
	has := c.open[b.producer()]
	delete(c.open, b.producer())
	if has || b.count() == 0 || c.lastOfProducer(b) {
		if b.count() == 0 && !has && !isEnd {
			return nil, true, nil
		}
		return b, false, nil
	}
	if h := c.horizon(b); h != 0 {
		if c.plan.now <= h || isEnd {
			return b, false, nil
		}
		return nil, true, nil
	}
	raw, err := c.l.inflate(b)
	if err != nil {
		c.st.LeftAlone++
		return b, false, nil
	}
	h := c.beginHorizon()
	out, err := rebuild(b, c.rebase(b, raw, h), b.count(), h, b.maxTime(), b.attrs()|attrHorizon, 0)
	return out, true, err
}
