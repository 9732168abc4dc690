package groupshard

import (
	"math"
	"time"

	"github.com/google/uuid"

	"kaas.dev/kaas/coordinator/groupshard/classic"
	"kaas.dev/kaas/coordinator/groupshard/consumer"
)

// DefaultConfig is Kafka's.
func DefaultConfig() Config {
	return Config{
		Classic: classic.Config{MinSession: 6 * time.Second, MaxSession: 30 * time.Minute, InitialDelay: 3 * time.Second,
			MaxSize: math.MaxInt32, NewID: uuid.NewString},
		Consumer: consumer.Config{SessionTimeout: 45 * time.Second, HeartbeatInterval: 5 * time.Second, Assignors: []string{"uniform", "range"},
			Upgrade: true, Downgrade: true},
		Retention: 7 * 24 * time.Hour,
	}
}
