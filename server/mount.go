package server

import (
	"log/slog"

	"kaas.dev/kaas/internal/substrate"
)

// fitMount refuses a mount on which brokers do not see each other's writes, and warns of
// one that is asking for trouble. What is not known is no reason to refuse.
func fitMount(mount func() (substrate.Mount, error), log *slog.Logger) error {
	m, err := mount()
	if err != nil {
		log.Warn("it is not known how the volume is mounted", "err", err)
		return nil
	}
	if err := m.Unfit(); err != nil {
		return err
	}
	for _, w := range m.Warnings() {
		log.Warn(w)
	}
	return nil
}
