package partition

// cfg is the configuration as it is now. A decision that looks at several fields
// takes it once.
func (p *Partition) cfg() *Config { return p.conf.Load() }

// Reconfigure replaces the configuration of a running partition, whole and at once.
// What is under way may still see the old one; every later append, roll, commit and
// read sees the new. It never waits. Clock, log, node and the bounds of the
// manifest's history stay as they were at [Open].
func (p *Partition) Reconfigure(cfg Config) {
	old := p.cfg()
	cfg.Now, cfg.Node, cfg.Log, cfg.breaks = old.Now, old.Node, old.Log, old.breaks
	cfg.HistoryEntries, cfg.HistoryAge = old.HistoryEntries, old.HistoryAge
	cfg = cfg.withDefaults()
	p.conf.Store(&cfg)
	if !cfg.About.same(old.About) {
		p.startDescribing()
	}
}
