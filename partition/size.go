package partition

// Size is how many bytes of the volume the log takes, without its indexes. Retention
// and compaction make it smaller before the files are gone.
func (p *Partition) Size() (bytes int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.mu.segs {
		bytes += s.size
	}
	return bytes
}
