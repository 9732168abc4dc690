package partition

// Watch has c told, without waiting for it, of each advance of the high watermark and
// of the partition's end, until Unwatch. One channel with room for one message serves
// any number of partitions. Watch before looking; of one that has ended nothing comes.
func (p *Partition) Watch(c chan<- struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.watchers == nil {
		p.mu.watchers = map[chan<- struct{}]struct{}{}
	}
	p.mu.watchers[c] = struct{}{}
}

// Unwatch ends Watch.
func (p *Partition) Unwatch(c chan<- struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.mu.watchers, c)
}

// tellWatchers is part of wake. The caller holds mu.
func (p *Partition) tellWatchers() {
	for c := range p.mu.watchers {
		select {
		case c <- struct{}{}:
		default: // it was told already, and has not looked yet
		}
	}
}
